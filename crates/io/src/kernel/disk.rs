//! Counters of a block device, from `/proc/diskstats`, and bytes read by a cgroup v2 group, from
//! its `io.stat`.
//!
//! A line of diskstats has 11 numbers after the device's name, 15 since Linux 4.18, which added
//! discards, and 17 since 5.5, which added flushes. A flush without data also counts as a write, so
//! the mean time of a write includes flushes. The kernel counts flushes only for whole devices, not
//! for partitions.

use super::System;

/// The counters of a block device, counted since the kernel added the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Number of completed reads.
    pub reads: u64,
    /// Number of 512-byte sectors read.
    pub sectors_read: u64,
    /// Sum of the times of all reads, queueing included, in milliseconds.
    pub read_ms: u64,
    /// Number of completed writes. It includes flushes, even those without data.
    pub writes: u64,
    /// Number of 512-byte sectors written.
    pub sectors_written: u64,
    /// Sum of the times of all writes, queueing included, in milliseconds.
    pub write_ms: u64,
    /// Time during which at least one request was in flight, in milliseconds.
    pub busy_ms: u64,
    /// Sum over all requests of the time that each was in flight, in milliseconds.
    pub weighted_ms: u64,
    /// Number of completed flushes; `None` before Linux 5.5.
    pub flushes: Option<u64>,
    /// Sum of the times of all flushes, in milliseconds; `None` before Linux 5.5.
    pub flush_ms: Option<u64>,
}

impl DiskStats {
    /// Returns the counters of the device with this major and minor number from the text of
    /// `/proc/diskstats`; `None` if the device is not listed.
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

/// Returns the number of bytes that a cgroup v2 group has read from a device, from the text of the
/// group's `io.stat`; `None` if the group has no entry for the device or has read nothing.
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

/// Returns the number of bytes that the kernel has read from devices for a process: page cache
/// misses, read-ahead and direct reads. `io` is the text of `/proc/PID/io`.
pub fn process_read_bytes(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("read_bytes:"))?.trim().parse().ok()
}

/// Returns the number of bytes that the kernel has read from devices for the calling thread, as
/// [`process_read_bytes`] counts them; `None` if the kernel does not count them.
pub fn thread_read_bytes() -> Option<u64> {
    process_read_bytes(&System::default().read("/proc/thread-self/io")?)
}
