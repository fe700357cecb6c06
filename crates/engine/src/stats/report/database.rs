//! The text of property `rocksdb.dbstats`: the writes of a database.

use std::fmt::Write as _;

use super::human::{Count, Micros, gigabytes, megabytes};
use crate::stats::activity::Done;

/// Minimum duration by which totals are divided to get rates, in seconds.
pub(super) const SHORTEST_S: f64 = 0.001;

/// Returns the report on a database's writes, for two periods: since the database was opened
/// (`total`), and since the counts `earlier`.
pub(crate) fn database_text(total: &Done, earlier: &Done) -> String {
    let interval = since(total, earlier);
    let mut text = format!(
        "\n** DB Stats **\nUptime(secs): {:.1} total, {:.1} interval\n",
        total.seconds, interval.seconds
    );
    append(&mut text, "Cumulative", total, true);
    append(&mut text, "Interval", &interval, false);
    let stops = total.write_buffer_manager_stops;
    // Writing to a string does not fail.
    let _ = writeln!(text, "Write Stall (count): write-buffer-manager-limit-stops: {stops}");
    text
}

fn append(text: &mut String, which: &str, done: &Done, in_gigabytes: bool) {
    let seconds = done.seconds.max(SHORTEST_S);
    let writes = done.writes_by_other + done.writes_by_self;
    let ingested = if in_gigabytes {
        format!("{:.2} GB", gigabytes(done.bytes_written))
    } else {
        format!("{:.2} MB", megabytes(done.bytes_written))
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{which} writes: {} writes, {} keys, {} commit groups, {:.1} writes per commit group, \
         ingest: {ingested}, {:.2} MB/s",
        Count(writes),
        Count(done.keys_written),
        Count(done.writes_by_self),
        writes as f64 / done.writes_by_self.max(1) as f64,
        megabytes(done.bytes_written) / seconds
    );
    let _ = writeln!(
        text,
        "{which} WAL: {} writes, {} syncs, {:.2} writes per sync, written: {:.2} GB, {:.2} MB/s",
        Count(done.writes_with_wal),
        Count(done.wal_syncs),
        done.writes_with_wal as f64 / done.wal_syncs.max(1) as f64,
        gigabytes(done.wal_bytes),
        megabytes(done.wal_bytes) / seconds
    );
    let percent = done.stall_micros as f64 / 1e4 / seconds;
    let _ = writeln!(text, "{which} stall: {}, {percent:.1} percent", Micros(done.stall_micros));
}

fn since(total: &Done, earlier: &Done) -> Done {
    Done {
        seconds: total.seconds - earlier.seconds,
        wal_bytes: total.wal_bytes - earlier.wal_bytes,
        wal_syncs: total.wal_syncs - earlier.wal_syncs,
        bytes_written: total.bytes_written - earlier.bytes_written,
        keys_written: total.keys_written - earlier.keys_written,
        writes_by_other: total.writes_by_other - earlier.writes_by_other,
        writes_by_self: total.writes_by_self - earlier.writes_by_self,
        writes_with_wal: total.writes_with_wal - earlier.writes_with_wal,
        stall_micros: total.stall_micros - earlier.stall_micros,
        write_buffer_manager_stops: total.write_buffer_manager_stops
            - earlier.write_buffer_manager_stops,
    }
}
