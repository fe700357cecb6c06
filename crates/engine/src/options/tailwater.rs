//! The options that RocksDB does not have.
//!
//! They are a database's. In an option string they stand among RocksDB's; on the device they have a
//! file of their own, `TAILWATER-OPTIONS`, which RocksDB neither reads nor removes. It is text: a
//! line for each option that was set, `name=value`; empty lines and those that begin with `#` mean
//! nothing.

use std::fmt::Write as _;

use tailwater_io::Purpose;

use super::choice::IoModeChoice::{self, Unset};
use super::database::DbOptions;
use super::error::{Error, Problem, Result};
use super::schema::OptionTable;

option_table! {
    /// Options that RocksDB does not have.
    pub struct TailwaterOptions {
        /// How users' reads of tables go: by default as `use_direct_reads` says.
        user_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How users' reads of blob files go: by default as their reads of tables.
        user_blob_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How compactions read tables: by default as `use_direct_reads` and
        /// `use_direct_io_for_compaction_reads` say.
        compaction_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How compactions read blob files: by default as they read tables.
        compaction_blob_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How compactions write tables: by default as `use_direct_io_for_flush_and_compaction`
        /// says.
        compaction_write_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How flushes write tables: by default as `use_direct_io_for_flush_and_compaction` says.
        flush_write_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How compactions read back what they wrote, to verify it: by default as they read their
        /// inputs.
        verification_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How tables are written for ingestion, and copied by it: by default through the page
        /// cache.
        ingestion_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// How files are copied into checkpoints: by default through the page cache.
        checkpoint_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// Size of one request of a compaction or flush past the page cache, in bytes, 16 MiB at
        /// most. A compaction reads up to `compaction_readahead_size` ahead of itself, so smaller
        /// requests mean more of them at the device, where users' reads wait behind them. Where
        /// `writable_file_max_buffer_size` is smaller, it bounds writes.
        direct_request_size: u64 = 1 << 20, Fixed, Honoured;
        /// Whether compactions that write past the page cache hand over what users read: outputs'
        /// blocks that come from it are in the page cache, or in the block cache, when the outputs
        /// are first seen. Less is handed over while little of it is read, and nothing while writes
        /// would soon be slowed down.
        warm_handover: bool = true, Fixed, Honoured;
        /// Whether compactions run at low weight, so that they take no processor that users want,
        /// until writes would soon be slowed down. Where processors are never free, compactions
        /// hardly run until then. A compaction filter or merge operator runs at that weight, too.
        quiet_background: bool = false, Fixed, Honoured;
        /// How blob files are written.
        blob_write_io_mode: IoModeChoice = Unset, Fixed, NoEffect("blob files are not written");
        /// How write-ahead logs are written: `buffered`, `direct`, or, with `auto`, past the page
        /// cache while most writes are synced. By default as `use_direct_io_for_wal` says.
        wal_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// Whether write-ahead logs are written past the page cache, into space that was written
        /// before: what is synced then waits for one write of the device.
        use_direct_io_for_wal: bool = false, Fixed, Honoured;
        /// In which unit direct logs get space of zeros ahead of their need, in bytes, rounded up
        /// to a multiple of 4096. With 0 they get none: they are appended to, and each sync waits
        /// for the file's metadata, too.
        wal_preallocation_block_size: u64 = 1 << 20, Fixed, Honoured;
        /// Whether the C library's allocator gives memory back to the system whenever a block cache
        /// that sizes itself does (`malloc_trim`). That goes over the heap of the whole process and
        /// keeps its locks meanwhile.
        trim_allocator: bool = false, Fixed, Honoured;
    }
    elsewhere {}
    other_names {}
    retired {}
}

impl TailwaterOptions {
    /// What the file holds; `None` where nothing was set, and there is to be none.
    pub fn to_text(&self) -> Option<String> {
        let unset = Self::default();
        let mut text = String::from("# Options of this database that RocksDB does not have.\n");
        let length = text.len();
        for (name, value, _) in self.differences(&unset) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}={value}");
        }
        (text.len() > length).then_some(text)
    }

    /// Takes the options that a file's text holds.
    ///
    /// # Errors
    /// A line that is no assignment, names that are not known, values that there are not; all with
    /// their line.
    pub fn from_text(text: &str) -> Result<Self> {
        let mut options = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let set = match line.split_once('=') {
                Some((name, value)) => options.set_option(name.trim(), value.trim()),
                None => Err(Error::new(line, Problem::Unknown { nearest: None })),
            };
            set.map_err(|error| error.at_line(index as u32 + 1))?;
        }
        Ok(options)
    }
}

/// What is asked of the bytes of one purpose, and by which option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedIoMode {
    /// What is asked: never [`IoModeChoice::Unset`].
    pub choice: IoModeChoice,
    /// The option that says so; `None` where none does.
    pub option: Option<&'static str>,
}

impl DbOptions {
    /// What the options ask of the bytes of a purpose: an option of our own goes before RocksDB's.
    pub fn io_mode(&self, purpose: Purpose) -> AskedIoMode {
        let own = &self.tailwater;
        let (choice, option) = match purpose {
            Purpose::UserRead => (own.user_read_io_mode, "user_read_io_mode"),
            Purpose::UserBlobRead => (own.user_blob_read_io_mode, "user_blob_read_io_mode"),
            Purpose::CompactionRead => (own.compaction_read_io_mode, "compaction_read_io_mode"),
            Purpose::CompactionBlobRead => {
                (own.compaction_blob_read_io_mode, "compaction_blob_read_io_mode")
            }
            Purpose::CompactionWrite => (own.compaction_write_io_mode, "compaction_write_io_mode"),
            Purpose::FlushWrite => (own.flush_write_io_mode, "flush_write_io_mode"),
            Purpose::Verification => (own.verification_io_mode, "verification_io_mode"),
            Purpose::Ingestion => (own.ingestion_io_mode, "ingestion_io_mode"),
            Purpose::Checkpoint => (own.checkpoint_io_mode, "checkpoint_io_mode"),
            Purpose::BlobWrite => (own.blob_write_io_mode, "blob_write_io_mode"),
            Purpose::Wal => (own.wal_io_mode, "wal_io_mode"),
            Purpose::Manifest
            | Purpose::Metadata
            | Purpose::LogAppend
            | Purpose::LogRead
            | Purpose::LogIndex
            | Purpose::LogJournal => (Unset, ""),
        };
        match choice {
            Unset => self.io_mode_by_default(purpose),
            choice => AskedIoMode { choice, option: Some(option) },
        }
    }

    fn io_mode_by_default(&self, purpose: Purpose) -> AskedIoMode {
        let direct_if = |flags: &[(bool, &'static str)]| {
            let option = flags.iter().find(|(is_set, _)| *is_set).map(|(_, option)| *option);
            let choice =
                if option.is_some() { IoModeChoice::Direct } else { IoModeChoice::Buffered };
            AskedIoMode { choice, option }
        };
        let reads = (self.use_direct_reads, "use_direct_reads");
        let compaction_reads =
            (self.use_direct_io_for_compaction_reads, "use_direct_io_for_compaction_reads");
        let writes =
            (self.use_direct_io_for_flush_and_compaction, "use_direct_io_for_flush_and_compaction");
        let logs = (self.tailwater.use_direct_io_for_wal, "use_direct_io_for_wal");
        match purpose {
            Purpose::Wal => direct_if(&[logs]),
            Purpose::UserRead => direct_if(&[reads]),
            Purpose::UserBlobRead => self.io_mode(Purpose::UserRead),
            Purpose::CompactionRead => direct_if(&[reads, compaction_reads]),
            Purpose::CompactionBlobRead | Purpose::Verification => {
                self.io_mode(Purpose::CompactionRead)
            }
            Purpose::CompactionWrite | Purpose::FlushWrite => direct_if(&[writes]),
            Purpose::Ingestion
            | Purpose::Checkpoint
            | Purpose::BlobWrite
            | Purpose::Manifest
            | Purpose::Metadata
            | Purpose::LogAppend
            | Purpose::LogRead
            | Purpose::LogIndex
            | Purpose::LogJournal => direct_if(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_goes_through_the_file() {
        assert_eq!(TailwaterOptions::default().to_text(), None);
        let set = TailwaterOptions {
            compaction_read_io_mode: IoModeChoice::Direct,
            flush_write_io_mode: IoModeChoice::Auto,
            ..TailwaterOptions::default()
        };
        let text = set.to_text().unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["compaction_read_io_mode=direct", "flush_write_io_mode=auto"]);
        assert_eq!(TailwaterOptions::from_text(&text), Ok(set));
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_the_line() {
        let refused = |text| TailwaterOptions::from_text(text).unwrap_err().to_string();
        let error = refused("\n# fine\nuser_read_io_mode = fast\n");
        assert!(error.contains("line 3") && error.contains("user_read_io_mode"), "{error}");
        let error = refused("user_reads_io_mode=direct");
        assert!(error.contains("line 1") && error.contains("user_read_io_mode"), "{error}");
        assert!(refused("nonsense").contains("nonsense"));
    }
}
