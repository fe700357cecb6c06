//! The options that RocksDB does not have.
//!
//! They are options of a database. An option string may mix them with RocksDB's options. On disk
//! they are in a separate file, `TAILWATER-OPTIONS`, which RocksDB neither reads nor removes. It is
//! a text file with a line `name=value` for each option that differs from its default. Empty lines
//! and lines that begin with `#` are ignored.

use std::fmt::Write as _;

use super::choice::IoModeChoice::{self, Unset};
use super::error::{Error, Problem, Result};
use super::schema::OptionTable;
use super::value::OptionValue;

option_table! {
    /// Options that RocksDB does not have.
    ///
    /// ```
    /// # fn main() -> tailwater::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let directory = directory.path();
    /// use tailwater::options::IoModeChoice;
    /// use tailwater::{Db, OpenOptions};
    ///
    /// let mut options = OpenOptions::default();
    /// let database = options.database_mut();
    /// database.create_if_missing = true;
    /// // Compactions bypass the page cache where the filesystem permits it.
    /// database.tailwater.compaction_read_io_mode = IoModeChoice::Auto;
    /// database.tailwater.compaction_write_io_mode = IoModeChoice::Auto;
    /// let db = Db::open(directory, &options)?;
    ///
    /// // For each purpose: the requested mode, the option that requests it, the mode in effect.
    /// let modes = db.property_value("tailwater.io-modes")?.unwrap_or_default();
    /// assert!(modes.contains("asked auto by compaction_read_io_mode"));
    /// assert!(modes.contains("user_read: asked buffered by default, effective buffered"));
    /// # Ok(())
    /// # }
    /// ```
    pub struct TailwaterOptions {
        /// I/O mode of users' reads of tables: by default the mode selected by `use_direct_reads`.
        user_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of users' reads of blob files: by default the mode of their reads of tables.
        user_blob_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of compactions' reads of tables: by default the mode selected by
        /// `use_direct_reads` and `use_direct_io_for_compaction_reads`.
        compaction_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of compactions' reads of blob files: by default the mode of their reads of
        /// tables.
        compaction_blob_read_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of tables that compactions write: by default the mode selected by
        /// `use_direct_io_for_flush_and_compaction`.
        compaction_write_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of tables that flushes write: by default the mode selected by
        /// `use_direct_io_for_flush_and_compaction`.
        flush_write_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode in which compactions verify their outputs: by default the mode in which they
        /// read their inputs.
        verification_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of writing tables for ingestion and of copying them: by default buffered.
        ingestion_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// I/O mode of copying files into checkpoints: by default buffered.
        checkpoint_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// Size of one direct I/O request of a compaction or flush, in bytes, 16 MiB at most. A
        /// compaction reads up to `compaction_readahead_size` ahead of itself, so smaller requests
        /// mean more of them queued at the device ahead of users' reads.
        /// `writable_file_max_buffer_size`, if smaller, bounds writes.
        direct_request_size: u64 = 1 << 20, Fixed, Honoured;
        /// Whether flushes and compactions that write with direct I/O keep caches warm: output
        /// blocks that replace blocks read by users, or hold keys that gets found lately, are in
        /// the page cache, or in the block cache, before readers see the outputs. Less is handed
        /// over while few of the blocks are read, and nothing while writes are about to be slowed
        /// down.
        warm_handover: bool = true, Fixed, Honoured;
        /// Maximum size of the buffers of users' reads in flight, in bytes: of multi-gets, and of
        /// iterators with `async_io`. A read that finds this memory in use is made alone.
        max_bytes_in_flight: u64 = 32 << 20, Fixed, Honoured;
        /// Whether compactions run at low CPU priority, so that they yield to users' threads, until
        /// writes are about to be slowed down. If CPUs are never idle, compactions hardly run until
        /// then. Compaction filters and merge operators run at that priority, too.
        low_priority_compactions: bool = false, Fixed, Honoured;
        /// I/O mode of blob files that are written.
        blob_write_io_mode: IoModeChoice = Unset, Fixed, NoEffect("blob files are not written");
        /// I/O mode of write-ahead logs: `buffered`, `direct`, or `auto`, which is direct while
        /// most writes are synced. The default is selected by `use_direct_io_for_wal`.
        wal_io_mode: IoModeChoice = Unset, Fixed, Honoured;
        /// Whether write-ahead logs use direct I/O, into preallocated space that was already
        /// written: a synced write then waits for only one device write.
        use_direct_io_for_wal: bool = false, Fixed, Honoured;
        /// Unit in which direct logs preallocate space filled with zeros, in bytes, rounded up to a
        /// multiple of 4096. With 0 they are not preallocated: each sync waits for the file's
        /// metadata, too.
        wal_preallocation_block_size: u64 = 1 << 20, Fixed, Honoured;
        /// Duration from which on a read is slow, in microseconds: the causes of its time are in
        /// the properties `tailwater.slow-reads` and `tailwater.recent-slow-reads`. With 0, reads
        /// are not attributed to causes.
        slow_read_threshold_us: u64 = 0, Mutable, Honoured;
        /// Whether the keys of slow reads are kept for the property
        /// `tailwater.recent-slow-reads`.
        slow_read_keys: bool = false, Mutable, Honoured;
        /// Whether the C library's allocator returns memory to the system (`malloc_trim`) whenever
        /// a self-sizing block cache shrinks. That scans the heap of the whole process while
        /// holding its locks.
        trim_allocator: bool = false, Fixed, Honoured;
    }
    elsewhere {}
    other_names {
        "quiet_background" => |options, text| {
            OptionValue::set(&mut options.low_priority_compactions, text)
        };
    }
    retired {}
}

impl TailwaterOptions {
    /// Returns the text of the file `TAILWATER-OPTIONS`; `None` if all options have their defaults,
    /// so that the file is not needed.
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

    /// Parses the text of the file `TAILWATER-OPTIONS`.
    ///
    /// # Errors
    /// For a line that is not of the form `name=value`, an unknown name, or an invalid value. The
    /// error has the number of the line.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_round_trip_through_the_file() {
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
    fn an_invalid_file_is_refused_with_its_line() {
        let refused = |text| TailwaterOptions::from_text(text).unwrap_err().to_string();
        let error = refused("\n# fine\nuser_read_io_mode = fast\n");
        assert!(error.contains("line 3") && error.contains("user_read_io_mode"), "{error}");
        let error = refused("user_reads_io_mode=direct");
        assert!(error.contains("line 1") && error.contains("user_read_io_mode"), "{error}");
        assert!(refused("nonsense").contains("nonsense"));
    }
}
