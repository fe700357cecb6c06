//! Page cache and reclaim: `/proc/vmstat`, and `memory.stat` of a memory cgroup.
//!
//! All figures are in pages, whatever the unit in the file. The names in vmstat changed over time:
//! `workingset_refault` became `workingset_refault_file` in Linux 5.9; `allocstall` is counted by
//! zone since 4.10; `pgscan_direct` was counted by zone until 4.8.

use super::text::{figure, first_figure, sum};

/// The contents of the page cache of the machine or a group, and its activity since the machine was
/// booted or the group was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCache {
    /// Pages of files in memory, including shared memory.
    pub cached: Option<u64>,
    /// Dirty pages and pages being written back.
    pub dirty: Option<u64>,
    /// Pages on the active list: those used repeatedly.
    pub active_file: Option<u64>,
    /// Pages on the inactive list: those evicted first.
    pub inactive_file: Option<u64>,
    /// Pages dirtied so far. Not reported for groups.
    pub dirtied: Option<u64>,
    /// Pages written back so far. Not reported for groups.
    pub written: Option<u64>,
    /// Pages of files that were read again soon after their eviction.
    pub refaulted: Option<u64>,
    /// Refaulted pages that had been in use when they were evicted. Not reported for groups in
    /// cgroup v1.
    pub activated: Option<u64>,
    /// Pages scanned by allocations that had to reclaim memory themselves. The machine's figure
    /// does not include the limits of groups in cgroup v1; the pressure files do.
    pub scanned_directly: Option<u64>,
    /// Number of allocations that had to reclaim memory themselves, with the same restriction as
    /// `scanned_directly`.
    pub stalled_allocations: Option<u64>,
}

impl PageCache {
    /// Parses the text of `/proc/vmstat`, where all figures are in pages.
    pub fn of_machine(vmstat: &str) -> Self {
        // `pgscan_direct_throttle` counts something else.
        let is_direct_scan = |name: &str| {
            let zone = name.strip_prefix("pgscan_direct_");
            zone.is_some_and(|zone| zone != "throttle")
        };
        Self {
            cached: figure(vmstat, "nr_file_pages"),
            dirty: both(figure(vmstat, "nr_dirty"), figure(vmstat, "nr_writeback")),
            active_file: figure(vmstat, "nr_active_file"),
            inactive_file: figure(vmstat, "nr_inactive_file"),
            dirtied: figure(vmstat, "nr_dirtied"),
            written: figure(vmstat, "nr_written"),
            refaulted: first_figure(vmstat, &["workingset_refault_file", "workingset_refault"]),
            activated: first_figure(vmstat, &["workingset_activate_file", "workingset_activate"]),
            scanned_directly: figure(vmstat, "pgscan_direct")
                .or_else(|| sum(vmstat, is_direct_scan)),
            stalled_allocations: sum(vmstat, |name| name.starts_with("allocstall")),
        }
    }

    /// Parses the text of a group's `memory.stat` in cgroup v1, which has levels in bytes and
    /// events in pages. The figures include the group's descendants where the kernel adds them up.
    pub fn of_group_v1(memory_stat: &str, page_bytes: u64) -> Self {
        let read = |name: &str| {
            figure(memory_stat, &format!("total_{name}")).or_else(|| figure(memory_stat, name))
        };
        let pages = |name: &str| read(name).map(|bytes| bytes / page_bytes);
        Self {
            cached: pages("cache"),
            dirty: both(pages("dirty"), pages("writeback")),
            active_file: pages("active_file"),
            inactive_file: pages("inactive_file"),
            refaulted: read("workingset_refault_file").or_else(|| read("workingset_refault")),
            activated: read("workingset_activate_file"),
            ..Self::default()
        }
    }

    /// Parses the text of a group's `memory.stat` in cgroup v2, which has levels in bytes and
    /// events in pages.
    pub fn of_group_v2(memory_stat: &str, page_bytes: u64) -> Self {
        let pages = |name: &str| figure(memory_stat, name).map(|bytes| bytes / page_bytes);
        let refault = ["workingset_refault_file", "workingset_refault"];
        let activate = ["workingset_activate_file", "workingset_activate"];
        Self {
            cached: pages("file"),
            dirty: both(pages("file_dirty"), pages("file_writeback")),
            active_file: pages("active_file"),
            inactive_file: pages("inactive_file"),
            refaulted: first_figure(memory_stat, &refault),
            activated: first_figure(memory_stat, &activate),
            scanned_directly: figure(memory_stat, "pgscan_direct"),
            ..Self::default()
        }
    }
}

fn both(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    Some(left? + right?)
}
