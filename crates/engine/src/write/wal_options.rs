//! The options of new logs.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::ALIGNMENT;
use tailwater_io::{IoMode, Purpose};

use crate::column_family::ColumnFamily;
use crate::io_modes::IoModes;
use crate::open_options::OpenOptions;
use crate::options::{CompressionType, DbOptions, IoModeChoice};
use crate::wal::{LogMode, LogOptions};

/// Lower limit of the length at which a log is switched, in bytes.
const SMALLEST_FULL_LOG: u64 = 1 << 20;

/// Returns the options of the logs for a database with these options and column families.
pub(crate) fn wal_options<'a>(
    directory: &Path,
    options: &OpenOptions,
    io_modes: &IoModes,
    families: impl Iterator<Item = &'a ColumnFamily>,
) -> LogOptions {
    let database: &DbOptions = options.database();
    let largest = families.map(|family| family.options().write_buffer_size).max().unwrap_or(0);
    let max_bytes = largest.max(SMALLEST_FULL_LOG);
    let directory = options.wal_directory(directory);
    let works = io_modes.mode(Purpose::Wal, &directory);
    let mode = match (works, database.io_mode(Purpose::Wal).choice) {
        (IoMode::Direct, IoModeChoice::Auto) => LogMode::Auto,
        (IoMode::Direct, _) => LogMode::Direct,
        _ => LogMode::Buffered,
    };
    LogOptions {
        directory,
        mode,
        space_block: database
            .tailwater
            .wal_preallocation_block_size
            .next_multiple_of(ALIGNMENT as u64),
        recycle: database.recycle_log_file_num as usize,
        compressed: database.wal_compression == CompressionType::Zstd,
        preallocate: if database.allow_fallocate {
            preallocation(database, options.shared_write_buffer_limit(), largest)
        } else {
            0
        },
        bytes_per_sync: database.wal_bytes_per_sync,
        max_bytes,
        max_buffered: database.writable_file_max_buffer_size as usize,
        // With this option, a database whose last log is missing is refused, so a new log's
        // directory entry must be durable.
        sync_names: database.track_and_verify_wals,
        full_sync: database.use_fsync,
        first_removable: 0,
        durability: Arc::clone(io_modes.log_durability()),
        clock: Arc::clone(options.clock()),
    }
}

/// Returns the number of bytes to reserve for a log, where `write_buffer_size` is the size of the
/// largest memtable in bytes, and `shared_limit` the limit of a write buffer manager, or 0.
///
/// Reserves a tenth more than the size of the memtable, since a log is somewhat longer than its
/// keys and values, but no more than other limits of logs or memtables allow. Source:
/// `DBImpl::GetWalPreallocateBlockSize` in `db/db_impl/db_impl_write.cc`.
fn preallocation(options: &DbOptions, shared_limit: u64, write_buffer_size: u64) -> u64 {
    let bounds = [options.max_total_wal_size, options.db_write_buffer_size, shared_limit];
    let bounds = bounds.into_iter().filter(|&bound| bound > 0);
    bounds.fold(write_buffer_size.saturating_add(write_buffer_size / 10), u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a log reserved space for a whole memtable, even if other options limited
    /// the size of logs or memtables to far less.
    #[test]
    fn log_preallocation_respects_the_size_limits() {
        const GIB: u64 = 1 << 30;
        let reserved = |max_total_wal_size, db_write_buffer_size, shared_limit| {
            let options =
                DbOptions { max_total_wal_size, db_write_buffer_size, ..DbOptions::default() };
            preallocation(&options, shared_limit, GIB)
        };
        assert_eq!(reserved(0, 0, 0), GIB + GIB / 10);
        assert_eq!(reserved(1 << 20, 0, 0), 1 << 20);
        assert_eq!(reserved(0, 2 << 20, 0), 2 << 20);
        assert_eq!(reserved(3 << 20, 2 << 20, 4 << 20), 2 << 20);
        assert_eq!(reserved(3 << 20, 0, 1 << 20), 1 << 20);
        assert_eq!(preallocation(&DbOptions::default(), 0, u64::MAX), u64::MAX);
    }
}
