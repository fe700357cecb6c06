//! How much memory a process may have, and how much of it is left.

use std::path::{Path, PathBuf};

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
    /// How much it could have besides what is taken and besides the page cache, in bytes.
    pub free: i64,
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
        self.limit_with(&self.machine().unwrap_or_default())
    }

    /// How much anonymous memory the process has in use, in bytes: its heap, its stacks and what is
    /// mapped without a file, and neither code nor page cache. `None` where the kernel does not
    /// tell.
    pub fn anonymous(&self) -> Option<u64> {
        figure(&self.system.read("/proc/self/status")?, "RssAnon:").map(|kib| kib << 10)
    }

    /// What is left; `None` where the kernel does not tell.
    pub fn left(&self) -> Option<MemoryLeft> {
        let text = self.machine()?;
        let of_machine = |name| i64::try_from(figure(&text, name)? << 10).ok();
        let machine =
            Room { available: of_machine("MemAvailable:")?, free: of_machine("MemFree:")? };
        let room = self.group_left().map_or(machine, |of_group| machine.min(of_group));
        let pressure = self.group.as_ref().and_then(|group| {
            let text = self.system.read(group.path().join("memory.pressure"))?;
            Pressure::parse(&text)
        });
        Some(MemoryLeft {
            limit: self.limit_with(&text)?,
            available: room.available,
            free: room.free,
            stalled_us: pressure.and_then(|pressure| pressure.some_us),
        })
    }

    /// What the kernel tells of the machine's memory.
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

    /// What the limits of the group and of those above it leave.
    fn group_left(&self) -> Option<Room> {
        match self.group.as_ref()? {
            MemoryGroup::V1(path) => {
                let files = ["total_active_file", "total_inactive_file"];
                let limit = self.group_limit()?;
                self.room(path, limit, "memory.usage_in_bytes", files)
            }
            MemoryGroup::V2(path) => {
                let top = self.top.as_deref();
                let is_below = |path: &&Path| top.is_none_or(|top| path.starts_with(top));
                let room = |group: &Path| {
                    let limits = ["memory.max", "memory.high"];
                    let limits =
                        limits.iter().filter_map(|name| self.system.number(group.join(name)));
                    let files = ["active_file", "inactive_file"];
                    self.room(group, limits.min()?, "memory.current", files)
                };
                path.ancestors().take_while(is_below).filter_map(room).reduce(Room::min)
            }
        }
    }

    /// What is left of a group's limit. `usage` is where it says what is charged to it, and `files`
    /// what it calls pages of files, which could go.
    fn room(&self, group: &Path, limit: u64, usage: &str, files: [&str; 2]) -> Option<Room> {
        let text = self.system.read(group.join("memory.stat"))?;
        let files: u64 = files.iter().filter_map(|name| figure(&text, name)).sum();
        let free = limit as i64 - self.system.number(group.join(usage))? as i64;
        Some(Room { available: free + files as i64, free })
    }
}

/// What is left where there is a limit, in bytes.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// If the page cache gives way.
    available: i64,
    /// If it does not.
    free: i64,
}

impl Room {
    /// What two limits leave.
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
