//! Counters of a block device: `/proc/diskstats`, and `io.stat` of a group in cgroup v2.
//!
//! A line of diskstats has 11 figures after the device's name, 15 since Linux 4.18 (discards) and
//! 17 since 5.5 (flushes). A flush without data also counts as a write, so the mean time of a write
//! includes that of the flushes. Flushes are counted for whole devices only, not for partitions.

/// A block device's counters since the kernel added the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Completed reads.
    pub reads: u64,
    /// 512-byte sectors read.
    pub sectors_read: u64,
    /// Total time of all reads, including queueing, in milliseconds.
    pub read_ms: u64,
    /// Completed writes, including flushes without data.
    pub writes: u64,
    /// 512-byte sectors written.
    pub sectors_written: u64,
    /// Total time of all writes, in milliseconds.
    pub write_ms: u64,
    /// Time in which at least one request was in flight, in milliseconds.
    pub busy_ms: u64,
    /// Sum of the times that requests were in flight, in milliseconds.
    pub weighted_ms: u64,
    /// Completed flushes.
    pub flushes: Option<u64>,
    /// Total time of all flushes, in milliseconds.
    pub flush_ms: Option<u64>,
}

impl DiskStats {
    /// Parses the text of `/proc/diskstats` for the device with this number; `None` if it is not
    /// listed.
    pub fn parse(diskstats: &str, (major, minor): (u32, u32)) -> Option<Self> {
        diskstats.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let is_it = words.next()?.parse() == Ok(major) && words.next()?.parse() == Ok(minor);
            if !is_it {
                return None;
            }
            let figures: Vec<u64> = words.skip(1).map_while(|word| word.parse().ok()).collect();
            Self::from_figures(&figures)
        })
    }

    fn from_figures(figures: &[u64]) -> Option<Self> {
        let &[reads, _, sectors_read, read_ms, writes, _, sectors_written, write_ms, ..] = figures
        else {
            return None;
        };
        Some(Self {
            reads,
            sectors_read,
            read_ms,
            writes,
            sectors_written,
            write_ms,
            busy_ms: *figures.get(9)?,
            weighted_ms: *figures.get(10)?,
            flushes: figures.get(15).copied(),
            flush_ms: figures.get(16).copied(),
        })
    }
}

/// Returns the bytes that a group read from a device, from the text of its `io.stat`; `None` if the
/// group has no entry for that device, or has read nothing.
pub fn group_read_bytes(io_stat: &str, (major, minor): (u32, u32)) -> Option<u64> {
    let device = format!("{major}:{minor}");
    io_stat.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next()? != device {
            return None;
        }
        words.find_map(|word| word.strip_prefix("rbytes="))?.parse().ok()
    })
}

/// Returns the bytes fetched from devices for a process, from the text of its `/proc/PID/io`:
/// missing pages, read-ahead, and direct reads.
pub fn process_read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}
