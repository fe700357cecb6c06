//! Snapshots of the kernel's counters of a target: the machine, and optionally a device, a cgroup
//! and a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::disk::{DiskStats, group_read_bytes, process_read_bytes};
use super::page_cache::PageCache;
use super::pressure::Pressure;
use super::{Device, MemoryGroup, RunQueue, System};
use crate::clock::monotonic_ns;

/// What snapshots observe: the machine, and optionally the device of a directory, a memory cgroup
/// and a process.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) system: System,
    pub(super) device: Option<Device>,
    pub(super) group: Option<MemoryGroup>,
    pub(super) pressure_group: Option<PathBuf>,
    pub(super) process: Option<u32>,
}

impl Target {
    /// Creates a target that consists of the machine and, if it can be determined, the device on
    /// which `directory` is stored.
    pub fn new(system: &System, directory: &Path) -> Self {
        Self {
            device: Device::of_directory(system, directory),
            system: system.clone(),
            group: None,
            pressure_group: None,
            process: None,
        }
    }

    /// Adds a memory cgroup. The figures of the page cache and of reclaim are then those of the
    /// group instead of the machine.
    #[must_use]
    pub fn group(mut self, group: MemoryGroup) -> Self {
        if let (MemoryGroup::V2(path), None) = (&group, &self.pressure_group) {
            self.pressure_group = Some(path.clone());
        }
        self.group = Some(group);
        self
    }

    /// Adds the cgroup v2 group with this directory. The stall figures are then those of this
    /// group. Groups of cgroup v1 do not report stalls, but a process may be in a v1 group and a v2
    /// group at the same time.
    #[must_use]
    pub fn pressure_group(mut self, directory: impl Into<PathBuf>) -> Self {
        self.pressure_group = Some(directory.into());
        self
    }

    /// Adds a process to the target. Snapshots then include its reads from devices, and the time
    /// that its threads waited for processors.
    #[must_use]
    pub fn process(mut self, process: u32) -> Self {
        self.process = Some(process);
        self
    }

    /// Returns the target's device; `None` if it could not be determined.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }
}

/// The part of the machine that a figure describes, the narrowest part first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The observed process.
    Process,
    /// The cgroup, with all its processes.
    Group,
    /// The whole machine, including everything else that runs on it.
    Machine,
}

impl Scope {
    /// Returns the word that denotes this scope in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Group => "group",
            Self::Machine => "machine",
        }
    }
}

/// The kernel's counters of a [`Target`] at a point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Time of the snapshot, in nanoseconds of the monotonic clock of this process.
    pub at_ns: u64,
    /// The machine's page cache.
    pub machine: Option<PageCache>,
    /// The page cache of the target's cgroup.
    pub group: Option<PageCache>,
    /// Number of times that the target's cgroup reached its memory limit.
    pub limit_hits: Option<u64>,
    /// Number of processes of the target's cgroup that were killed because memory ran out.
    pub kills: Option<u64>,
    /// Stalls on memory, and whether they are those of the cgroup or the machine.
    pub memory_pressure: Option<(Scope, Pressure)>,
    /// Stalls on devices, and whether they are those of the cgroup or the machine.
    pub io_pressure: Option<(Scope, Pressure)>,
    /// The device's counters.
    pub disk: Option<DiskStats>,
    /// Number of bytes read from devices, and who read them: the process, the cgroup or the whole
    /// machine.
    pub fetched: Option<(Scope, u64)>,
    /// The processor use of each thread of the process, by thread id.
    pub threads: Option<BTreeMap<u32, RunQueue>>,
}

impl Snapshot {
    /// Reads the current counters of the machine, and those of the device, the cgroup and the
    /// process that belong to the target.
    pub fn take(target: &Target) -> Self {
        let system = &target.system;
        let number = target.device.as_ref().map(|device| device.number);
        let disk =
            number.and_then(|number| DiskStats::parse(&system.read("/proc/diskstats")?, number));
        let group = target.group.as_ref();
        Self {
            at_ns: monotonic_ns(),
            machine: system.read("/proc/vmstat").map(|text| PageCache::of_machine(&text)),
            group: group.and_then(|group| group.page_cache(system)),
            limit_hits: group.and_then(|group| group.limit_hits(system)),
            kills: group.and_then(|group| group.kills(system)),
            memory_pressure: pressure(target, "memory"),
            io_pressure: pressure(target, "io"),
            fetched: fetched(target, disk),
            disk,
            threads: target.process.and_then(|process| RunQueue::of_threads(system, process)),
        }
    }

    /// Returns the page cache whose figures are reported: that of the target's cgroup if the target
    /// has one, otherwise that of the machine.
    pub(super) fn page_cache(&self) -> Option<(Scope, &PageCache)> {
        let group = self.group.as_ref().map(|group| (Scope::Group, group));
        group.or_else(|| self.machine.as_ref().map(|machine| (Scope::Machine, machine)))
    }

    /// Keeps the last known counters of a process, thread or group that has ended: copies them from
    /// `earlier`, a previous snapshot of the same target.
    pub(super) fn keep_what_ended(&mut self, earlier: &Self) {
        self.group = self.group.or(earlier.group);
        self.limit_hits = self.limit_hits.or(earlier.limit_hits);
        self.kills = self.kills.or(earlier.kills);
        self.memory_pressure = closest(self.memory_pressure, earlier.memory_pressure);
        self.io_pressure = closest(self.io_pressure, earlier.io_pressure);
        self.fetched = closest(self.fetched, earlier.fetched);
        if let Some(ended) = &earlier.threads {
            let threads = self.threads.get_or_insert_default();
            for (&thread, &run_queue) in ended {
                threads.entry(thread).or_insert(run_queue);
            }
        }
    }
}

/// Returns the earlier value if there is no current one or if the current one has a wider scope,
/// and the current value otherwise.
fn closest<T>(now: Option<(Scope, T)>, before: Option<(Scope, T)>) -> Option<(Scope, T)> {
    match (&now, &before) {
        (Some((scope, _)), Some((closer, _))) if closer < scope => before,
        (None, _) => before,
        _ => now,
    }
}

fn pressure(target: &Target, what: &str) -> Option<(Scope, Pressure)> {
    let system = &target.system;
    let of_group = || {
        let text = system.read(target.pressure_group.as_ref()?.join(format!("{what}.pressure")))?;
        Some((Scope::Group, Pressure::parse(&text)?))
    };
    let of_machine = || {
        let text = system.read(format!("/proc/pressure/{what}"))?;
        Some((Scope::Machine, Pressure::parse(&text)?))
    };
    of_group().or_else(of_machine)
}

/// Returns the number of bytes read from devices: by the process if the target has one, otherwise
/// by the cgroup, otherwise by all users of the device.
fn fetched(target: &Target, disk: Option<DiskStats>) -> Option<(Scope, u64)> {
    let system = &target.system;
    let of_process = || {
        let text = system.read(format!("/proc/{}/io", target.process?))?;
        Some((Scope::Process, process_read_bytes(&text)?))
    };
    let of_group = || {
        let text = system.read(target.pressure_group.as_ref()?.join("io.stat"))?;
        Some((Scope::Group, group_read_bytes(&text, target.device.as_ref()?.number)?))
    };
    let of_device = || Some((Scope::Machine, disk?.sectors_read * 512));
    of_process().or_else(of_group).or_else(of_device)
}
