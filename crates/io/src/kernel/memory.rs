//! How much memory a process may have, and how much of it is left.

use std::path::PathBuf;

use super::group::{MemoryGroup, hierarchy, of_process};
use super::pressure::Pressure;
use super::text::figure;
use super::{System, mounts};

/// The memory of this process: that of its memory cgroup, if it has a limit, and the machine's.
#[derive(Debug, Clone)]
pub struct Memory {
    system: System,
    group: Option<MemoryGroup>,
    /// The top of the group's hierarchy, in cgroup v2.
    top: Option<PathBuf>,
}

/// What is left of the memory of a process, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLeft {
    /// How much it may have, page cache included, in bytes.
    pub limit: u64,
    /// How much of that it could have besides what is taken, if the page cache gave way, in bytes:
    /// below zero where it has more than it may, as when the limit was lowered.
    pub available: i64,
    /// For how long tasks waited for memory so far, in microseconds; `None` where nobody tells.
    pub stalled_us: Option<u64>,
}

impl Memory {
    /// That of this process.
    pub fn of_this_process(system: System) -> Self {
        let found = find_group(&system);
        let (group, top) = found.map_or((None, None), |(group, top)| (Some(group), top));
        Self { system, group, top }
    }

    /// How much the process may have, in bytes: the lowest limit of its memory cgroup and of those
    /// above it, or else all of the machine's. `None` where the kernel tells neither.
    pub fn limit(&self) -> Option<u64> {
        let machine = self.machine("MemTotal:");
        machine.into_iter().chain(self.group_limit()).min()
    }

    /// What is left; `None` where the kernel does not tell.
    pub fn left(&self) -> Option<MemoryLeft> {
        let machine = i64::try_from(self.machine("MemAvailable:")?).ok()?;
        let of_group = self.group_left();
        let pressure = self.group.as_ref().and_then(|group| {
            let text = self.system.read(group.path().join("memory.pressure"))?;
            Pressure::parse(&text)
        });
        Some(MemoryLeft {
            limit: self.limit()?,
            available: machine.min(of_group.unwrap_or(machine)),
            stalled_us: pressure.and_then(|pressure| pressure.some_us),
        })
    }

    fn machine(&self, name: &str) -> Option<u64> {
        figure(&self.system.read("/proc/meminfo")?, name).map(|kib| kib << 10)
    }

    fn group_limit(&self) -> Option<u64> {
        self.group.as_ref()?.limit(&self.system, self.top.as_deref())
    }

    /// What the group's limit leaves, if the page cache gives way.
    fn group_left(&self) -> Option<i64> {
        let (group, limit) = (self.group.as_ref()?, self.group_limit()?);
        let text = self.system.read(group.path().join("memory.stat"))?;
        let (usage, files) = match group {
            MemoryGroup::V1(_) => {
                ("memory.usage_in_bytes", ["total_active_file", "total_inactive_file"])
            }
            MemoryGroup::V2(_) => ("memory.current", ["active_file", "inactive_file"]),
        };
        let usage = self.system.number(group.path().join(usage))?;
        let files: u64 = files.iter().filter_map(|name| figure(&text, name)).sum();
        Some(limit as i64 - usage.saturating_sub(files) as i64)
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
