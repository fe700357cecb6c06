//! The I/O mode that the options request for each purpose of I/O.

use tailwater_io::Purpose;

use super::choice::IoModeChoice::{self, Unset};
use super::database::DbOptions;

/// The I/O mode requested for a purpose, and the option that requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedIoMode {
    /// The requested mode. Never [`IoModeChoice::Unset`].
    pub choice: IoModeChoice,
    /// The name of the option that requests the mode; `None` if no option does and the mode is the
    /// default.
    pub option: Option<&'static str>,
}

impl DbOptions {
    /// Returns the I/O mode that the options request for a purpose. Tailwater's options take
    /// precedence over RocksDB's.
    ///
    /// ```
    /// use tailwater::Purpose;
    /// use tailwater::options::{DbOptions, IoModeChoice};
    ///
    /// // RocksDB's flag applies to all reads of tables; Tailwater's options exempt a purpose.
    /// let mut options = DbOptions::default();
    /// options.use_direct_reads = true;
    /// options.tailwater.user_read_io_mode = IoModeChoice::Buffered;
    ///
    /// let compactions = options.io_mode(Purpose::CompactionRead);
    /// assert_eq!(compactions.choice, IoModeChoice::Direct);
    /// assert_eq!(compactions.option, Some("use_direct_reads"));
    /// assert_eq!(options.io_mode(Purpose::UserRead).choice, IoModeChoice::Buffered);
    /// ```
    pub fn io_mode(&self, purpose: Purpose) -> RequestedIoMode {
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
            // No option applies to the other purposes.
            _ => (Unset, ""),
        };
        match choice {
            Unset => self.io_mode_by_default(purpose),
            choice => RequestedIoMode { choice, option: Some(option) },
        }
    }

    fn io_mode_by_default(&self, purpose: Purpose) -> RequestedIoMode {
        let direct_if = |flags: &[(bool, &'static str)]| {
            let option = flags.iter().find(|(is_set, _)| *is_set).map(|(_, option)| *option);
            let choice =
                if option.is_some() { IoModeChoice::Direct } else { IoModeChoice::Buffered };
            RequestedIoMode { choice, option }
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
            // No flag of RocksDB applies to the other purposes.
            _ => direct_if(&[]),
        }
    }
}
