//! The page cache and memory reclaim: parses `/proc/vmstat` of the machine, and `memory.stat` of a
//! memory cgroup.
//!
//! The parsed figures are in pages, even if those in the file are in bytes. Names in vmstat have
//! changed over time: `workingset_refault` became `workingset_refault_file` in Linux 5.9;
//! `allocstall` is counted separately for each memory zone since 4.10; `pgscan_direct` was counted
//! separately for each zone until 4.8.

use super::text::{figure, first_figure, sum};

/// The contents of the page cache of the machine or of a cgroup, and its activity since the machine
/// was booted or the cgroup was created. A figure is `None` if the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCache {
    /// Number of file pages in memory, including shared memory.
    pub cached: Option<u64>,
    /// Number of pages that are dirty or under writeback.
    pub dirty: Option<u64>,
    /// Number of file pages on the active list, which were used repeatedly.
    pub active_file: Option<u64>,
    /// Number of file pages on the inactive list, which are evicted first.
    pub inactive_file: Option<u64>,
    /// Number of pages dirtied so far. `None` for cgroups.
    pub dirtied: Option<u64>,
    /// Number of pages written back so far. `None` for cgroups.
    pub written: Option<u64>,
    /// Number of refaults so far: file pages that were read again soon after their eviction.
    pub refaulted: Option<u64>,
    /// Number of refaulted pages that had been in use before their eviction. Not reported for
    /// groups in cgroup v1.
    pub activated: Option<u64>,
    /// Number of pages that allocating threads scanned because they had to reclaim memory
    /// themselves. In figures of the whole machine, this does not include reclaim at the limits of
    /// cgroup v1 groups. The kernel's memory pressure file (`/proc/pressure/memory`) does include
    /// it.
    pub scanned_directly: Option<u64>,
    /// Number of allocations whose thread had to reclaim memory itself. As for `scanned_directly`,
    /// reclaim at the limits of cgroup v1 groups is not included.
    pub stalled_allocations: Option<u64>,
}

impl PageCache {
    /// Parses the text of `/proc/vmstat`, where all figures are in pages.
    pub fn of_machine(vmstat: &str) -> Self {
        // `pgscan_direct_throttle` is not a number of scanned pages: it counts how often threads
        // were throttled.
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

    /// Parses the text of a group's `memory.stat` in cgroup v1. The file has levels in bytes and
    /// events in pages. Where the kernel provides totals that include the group's descendants,
    /// these are used.
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

    /// Parses the text of a group's `memory.stat` in cgroup v2. The file has current amounts in
    /// bytes and counts of events in pages.
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
