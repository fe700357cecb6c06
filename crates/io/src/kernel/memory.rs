//! The memory limit of a process, and the memory that is left below that limit.

use std::path::{Path, PathBuf};

use super::group::{MemoryGroup, hierarchy, of_process};
use super::pressure::Pressure;
use super::text::figure;
use super::{System, mounts};

/// A reader of the memory limits of this process: those of its memory cgroup, if it is in one, and
/// the memory of the machine.
#[derive(Debug, Clone)]
pub struct Memory {
    system: System,
    group: Option<MemoryGroup>,
    /// In cgroup v2, the directory at which the hierarchy is mounted; `None` in cgroup v1.
    top: Option<PathBuf>,
}

/// The memory left to a process at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLeft {
    /// The memory limit in bytes. Memory used by the page cache counts towards it.
    pub limit: u64,
    /// Memory that is free or used by reclaimable page cache, in bytes. Negative while usage
    /// exceeds the limit, for example after the limit was lowered.
    pub available: i64,
    /// Memory that can be used without reclaiming page cache, in bytes.
    pub free: i64,
    /// Time during which tasks of the cgroup have been stalled on memory so far, in microseconds;
    /// `None` if the kernel does not report it.
    pub stalled_us: Option<u64>,
}

impl Memory {
    /// Creates a reader of the memory limits of this process. `system` provides the kernel's files.
    pub fn of_this_process(system: System) -> Self {
        let found = find_group(&system);
        let (group, top) = found.map_or((None, None), |(group, top)| (Some(group), top));
        Self { system, group, top }
    }

    /// Returns the memory limit of the process, in bytes: the lowest of the limits of its memory
    /// cgroup, the cgroup's ancestors and the machine's memory. `None` if the kernel reports none
    /// of them.
    pub fn limit(&self) -> Option<u64> {
        self.limit_with(&self.machine().unwrap_or_default())
    }

    /// Returns the anonymous memory that the process uses, in bytes: heap, stacks and mappings
    /// without a file, but neither code nor page cache. `None` if the kernel does not report it.
    pub fn anonymous(&self) -> Option<u64> {
        figure(&self.system.read("/proc/self/status")?, "RssAnon:").map(|kib| kib << 10)
    }

    /// Returns the memory that this process can still use within the limits of its cgroups and the
    /// machine; `None` if the kernel does not report it.
    pub fn left(&self) -> Option<MemoryLeft> {
        let text = self.machine()?;
        let of_machine = |name| i64::try_from(figure(&text, name)? << 10).ok();
        let machine =
            Headroom { available: of_machine("MemAvailable:")?, free: of_machine("MemFree:")? };
        let headroom = self.group_left().map_or(machine, |of_group| machine.min(of_group));
        let pressure = self.group.as_ref().and_then(|group| {
            let text = self.system.read(group.path().join("memory.pressure"))?;
            Pressure::parse(&text)
        });
        Some(MemoryLeft {
            limit: self.limit_with(&text)?,
            available: headroom.available,
            free: headroom.free,
            stalled_us: pressure.and_then(|pressure| pressure.some_us),
        })
    }

    /// Returns the text of `/proc/meminfo`, the machine's memory counters.
    fn machine(&self) -> Option<String> {
        self.system.read("/proc/meminfo")
    }

    fn limit_with(&self, machine: &str) -> Option<u64> {
        let machine = figure(machine, "MemTotal:").map(|kib| kib << 10);
        machine.into_iter().chain(self.group_limit()).min()
    }

    fn group_limit(&self) -> Option<u64> {
        self.group.as_ref()?.limit(&self.system, self.top.as_deref())
    }

    /// Returns the memory that the process can still use within the limits of its cgroup and of the
    /// cgroup's ancestors.
    fn group_left(&self) -> Option<Headroom> {
        match self.group.as_ref()? {
            MemoryGroup::V1(path) => {
                let files = ["total_active_file", "total_inactive_file"];
                let limit = self.group_limit()?;
                self.headroom(path, limit, "memory.usage_in_bytes", files)
            }
            MemoryGroup::V2(path) => {
                let top = self.top.as_deref();
                let is_below = |path: &&Path| top.is_none_or(|top| path.starts_with(top));
                let headroom = |group: &Path| {
                    let limits = ["memory.max", "memory.high"];
                    let limits =
                        limits.iter().filter_map(|name| self.system.number(group.join(name)));
                    let files = ["active_file", "inactive_file"];
                    self.headroom(group, limits.min()?, "memory.current", files)
                };
                path.ancestors().take_while(is_below).filter_map(headroom).reduce(Headroom::min)
            }
        }
    }

    /// Returns the memory that a cgroup can still use below `limit`. `group` is the directory of
    /// the cgroup. `usage` is the name of the file that states the memory use to which the limit
    /// applies. `files` are the names of the counters of reclaimable file pages.
    fn headroom(
        &self,
        group: &Path,
        limit: u64,
        usage: &str,
        files: [&str; 2],
    ) -> Option<Headroom> {
        let text = self.system.read(group.join("memory.stat"))?;
        let files: u64 = files.iter().filter_map(|name| figure(&text, name)).sum();
        let free = limit as i64 - self.system.number(group.join(usage))? as i64;
        Some(Headroom { available: free + files as i64, free })
    }
}

/// The memory that is left below a limit, in bytes.
#[derive(Debug, Clone, Copy)]
struct Headroom {
    /// Memory that is free or used by reclaimable page cache.
    available: i64,
    /// Memory that can be used without reclaiming page cache.
    free: i64,
}

impl Headroom {
    /// Returns the memory that is left below both limits, that of `self` and that of `other`.
    fn min(self, other: Self) -> Self {
        Self { available: self.available.min(other.available), free: self.free.min(other.free) }
    }
}

fn find_group(system: &System) -> Option<(MemoryGroup, Option<PathBuf>)> {
    let mounts = mounts::parse(&system.read("/proc/self/mountinfo")?);
    let cgroup = system.read("/proc/self/cgroup")?;
    if let Some(path) = of_process(&mounts, &cgroup, Some("memory")) {
        return Some((MemoryGroup::V1(path), None));
    }
    let top = hierarchy(&mounts, None)?.target.clone();
    Some((MemoryGroup::V2(of_process(&mounts, &cgroup, None)?), Some(top)))
}
