//! What a block device did: `/proc/diskstats`, and `io.stat` of a group in cgroup v2.
//!
//! A line of diskstats has 11 figures behind the device's name, 15 since Linux 4.18 (discards) and
//! 17 since 5.5 (flushes). A flush that carries no data counts as a write as well, so that the mean
//! time of a write holds that of the flushes. Flushes are counted for whole devices only, not for
//! partitions.

/// What a device did since it came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads that ended.
    pub reads: u64,
    /// 512-byte sectors read.
    pub sectors_read: u64,
    /// The time of all reads, queueing included, in milliseconds.
    pub read_ms: u64,
    /// Writes that ended, flushes without data among them.
    pub writes: u64,
    /// 512-byte sectors written.
    pub sectors_written: u64,
    /// The time of all writes, in milliseconds.
    pub write_ms: u64,
    /// For how long at least one request was under way, in milliseconds.
    pub busy_ms: u64,
    /// The sum over requests of the time that each was under way, in milliseconds.
    pub weighted_ms: u64,
    /// Flushes that ended.
    pub flushes: Option<u64>,
    /// The time of all flushes, in milliseconds.
    pub flush_ms: Option<u64>,
}

impl DiskStats {
    /// From the text of `/proc/diskstats`, of the device with this number; `None` if it is not
    /// there.
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

/// The bytes that a group read from a device, from the text of its `io.stat`; `None` if the group
/// has nothing on that device, or nothing that it read.
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

/// The bytes that a process had fetched from devices, from the text of its `/proc/PID/io`: pages
/// that were missing, what was read ahead, and direct reads.
pub fn process_read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}
