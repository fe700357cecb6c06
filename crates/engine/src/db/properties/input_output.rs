//! The property that shows reads, writes and syncs by purpose.

use std::fmt::Write as _;

use tailwater_io::{Purpose, Statistics};

/// Returns a line for every purpose with any I/O, with latencies in microseconds. The figures are
/// those of the storage, and several databases may share a storage.
pub(super) fn text(statistics: &Statistics) -> String {
    let mut text = String::from(
        "purpose               opens    reads     read bytes  p50(us)  p99(us)   writes  written \
         bytes  p50(us)  p99(us)    syncs  p50(us)  p99(us)\n",
    );
    let micros = |nanos: u64| nanos as f64 / 1000.0;
    for purpose in Purpose::ALL {
        let figures = statistics.snapshot(purpose);
        let (reads, writes, syncs) = (&figures.reads, &figures.writes, &figures.syncs);
        if figures.opens + reads.count + writes.count + syncs.count == 0 {
            continue;
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{:<20} {:6} ", purpose.name(), figures.opens);
        for (latencies, bytes) in [(reads, figures.read_bytes), (writes, figures.written_bytes)] {
            let _ = write!(
                text,
                "{:8} {bytes:14} {:8.1} {:8.1} ",
                latencies.count,
                micros(latencies.percentile_ns(50.0)),
                micros(latencies.percentile_ns(99.0))
            );
        }
        let _ = writeln!(
            text,
            "{:8} {:8.1} {:8.1}",
            syncs.count,
            micros(syncs.percentile_ns(50.0)),
            micros(syncs.percentile_ns(99.0))
        );
    }
    text
}
