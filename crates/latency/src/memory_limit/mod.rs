//! A limit on the memory of child processes, page cache included. Without a limit the page cache
//! may hold the whole database, and then the effects that the experiments measure do not occur.
//!
//! [`MemoryLimit::new`] uses the first of these methods that works:
//!
//! 1. a memory cgroup in cgroup v1, including swap if the kernel accounts for it. Since v1 does not
//!    report stalls, a second group is created in the unified hierarchy, if that is mounted;
//! 2. a memory cgroup in cgroup v2, in which swap is forbidden if the kernel supports that;
//! 3. a systemd scope, created by `systemd-run`;
//! 4. no limit. [`MemoryLimit::describe`] states the consequences.
//!
//! A child enters the group before its program starts: the child is a shell that enters the group
//! and then replaces itself with the program. The kernel charges a page of a file to the group that
//! first read it, as long as the page stays in memory. Therefore pages of the measured files must
//! not be in memory at the start, and callers must [evict](fn@evict) them before measuring.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use std::time::Duration;
//! use tailwater_latency::memory_limit::MemoryLimit;
//! use tailwater_latency::memory_limit::interrupt::kill_on_interrupt;
//! use tailwater_io::kernel::Sampler;
//!
//! let limit = MemoryLimit::new(1 << 30)?;
//! println!("{}", limit.describe());
//! let mut child = limit.command(std::env::current_exe()?).arg("measure").spawn()?;
//! let _killed = kill_on_interrupt(&child)?;
//! let target = limit.target("database".as_ref(), child.id());
//! let sampler = Sampler::start(target, Duration::from_millis(200))?;
//! child.wait()?;
//! for (name, value) in sampler.stop().unwrap_or_default().figures.named() {
//!     println!("{name} {value:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! While a limit exists, the kernel's multi-generational LRU is disabled by a kernel setting.
//!
//! # Cleanup
//!
//! When a limit is dropped, creating it fails, or the program is interrupted ([`interrupt`]),
//! children are killed, groups are removed and the kernel's LRU setting is restored. After
//! `kill -9` the groups remain. Their names identify the process that created them. The next limit
//! kills the processes in such groups, removes the groups and restores the LRU setting.

mod eviction;
mod group;
mod hierarchy;
pub mod interrupt;
mod lru;
mod scope;
mod stale;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Weak};

use tailwater_io::kernel::group::of_process;
use tailwater_io::kernel::{MemoryGroup, System, Target, mounts};

pub use self::eviction::{Evicted, evict, evict_files};
use self::group::{Group, GroupLimit};
use self::lru::Lru;
use self::scope::Scopes;
use crate::failure::Failure;

/// The machine on which limits are set: this machine, or an imitation of one in tests.
#[derive(Debug, Clone)]
pub struct Host {
    /// The root of the filesystem that contains `/proc` and `/sys`.
    pub system: System,
    /// The name or path of the program `systemd-run`.
    pub systemd_run: PathBuf,
    /// The name or path of the program `systemctl`.
    pub systemctl: PathBuf,
}

impl Default for Host {
    /// Returns a [`Host`] with the real `/proc` and `/sys` and the installed systemd programs.
    fn default() -> Self {
        Self {
            system: System::default(),
            systemd_run: PathBuf::from("systemd-run"),
            systemctl: PathBuf::from("systemctl"),
        }
    }
}

/// A limit on the memory of the children started through it. It ends when the value is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    // The fields are dropped in this order. First `how` kills the children and removes their
    // cgroups, then `lru` restores the kernel's setting, and finally the interrupt action is
    // unregistered.
    how: How,
    lru: Lru,
    _interrupt: interrupt::Guard,
    host: Host,
    bytes: u64,
}

#[derive(Debug)]
enum How {
    V1 {
        memory: GroupLimit,
        unified: Option<Group>,
    },
    V2(GroupLimit),
    Systemd(Arc<Scopes>),
    /// No limit. For each method, the reason why it failed.
    Nothing(Vec<String>),
}

/// The cgroups in which the kernel accounts for a process's memory and stalls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// The process's memory cgroup.
    pub memory: Option<MemoryGroup>,
    /// The cgroup in the unified hierarchy that reports the stalls of the process.
    pub pressure: Option<PathBuf>,
}

impl MemoryLimit {
    /// Creates a limit of `bytes` on this machine. If no method works, the result is a value that
    /// does not limit anything ([`Self::bytes`] is `None`).
    ///
    /// # Errors
    /// I/O errors, if a group was created but its limit cannot be set.
    pub fn new(bytes: u64) -> Result<Self, Failure> {
        Self::on(Host::default(), bytes)
    }

    /// Creates a limit of `bytes` on `host`, which may be an imitated machine.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn on(host: Host, bytes: u64) -> Result<Self, Failure> {
        let places = hierarchy::places(&host.system);
        for place in [&places.v1, &places.v2].into_iter().flatten() {
            stale::remove(&host.system, place);
        }
        if let Some(unified) = &places.unified {
            stale::remove(&host.system, unified);
        }
        let lru = Lru::switch_off(&host.system);
        let name = stale::name(&host.system, lru.mask());
        let how = choose(&host, &places, &name, bytes)?;
        let leftovers: Vec<PathBuf> = how.groups().map(|group| group.directory()).collect();
        let scopes = match &how {
            How::Systemd(scopes) => Arc::downgrade(scopes),
            _ => Weak::new(),
        };
        let (system, mask) = (host.system.clone(), lru.mask());
        let interrupt = interrupt::on_interrupt(move || {
            leftovers.iter().for_each(|directory| group::end(directory));
            if let Some(scopes) = scopes.upgrade() {
                scopes.end();
            }
            lru::put_back(&system, mask);
        })?;
        Ok(Self { how, lru, _interrupt: interrupt, host, bytes })
    }

    /// Returns a command that runs a program inside the limit. Callers can add arguments,
    /// environment variables and redirections as usual. The program has the process id of the
    /// spawned child. If the child cannot enter the group, it exits with code 125.
    ///
    /// If the program is still running when the limit is dropped, it is killed.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        if let How::Systemd(scopes) = &self.how {
            return scopes.command(self.bytes, program.as_ref());
        }
        let groups: Vec<PathBuf> = self.how.groups().map(|group| group.directory()).collect();
        if groups.is_empty() {
            return Command::new(program);
        }
        let mut script = String::new();
        for number in 0..groups.len() {
            script += &format!("echo $$ >\"${number}/cgroup.procs\" && ");
        }
        // `shift` does not count the first group, which is `$0`.
        script += &format!("shift {} && exec \"$@\" || exit 125", groups.len() - 1);
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).args(groups).arg(program);
        command
    }

    /// Changes the limit, also for processes that are already running. If the limit is lowered, the
    /// kernel reclaims memory.
    ///
    /// # Errors
    /// I/O errors, in particular if the kernel cannot reclaim enough memory.
    pub fn set(&mut self, bytes: u64) -> Result<(), Failure> {
        match &mut self.how {
            How::V1 { memory, .. } => memory.set(bytes)?,
            How::V2(limit) => limit.set(bytes)?,
            How::Systemd(scopes) => scopes.set(bytes)?,
            How::Nothing(_) => {}
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Returns the limit in bytes, or `None` if no method of limiting worked.
    pub fn bytes(&self) -> Option<u64> {
        (!matches!(self.how, How::Nothing(_))).then_some(self.bytes)
    }

    /// Returns the kind of limit: `cgroup v1`, `cgroup v2`, `systemd-run` or `none`.
    pub fn kind(&self) -> &'static str {
        match self.how {
            How::V1 { .. } => "cgroup v1",
            How::V2(_) => "cgroup v2",
            How::Systemd(_) => "systemd-run",
            How::Nothing(_) => "none",
        }
    }

    /// Returns a description of the limit for a report: its kind, its size, and what it does not
    /// cover.
    pub fn describe(&self) -> String {
        let bytes = self.bytes;
        let mut text = match &self.how {
            How::V1 { memory, unified } => {
                let swap = memory.describe_swap();
                let stalls = match unified {
                    Some(_) => "stalls are those of a group in the unified hierarchy",
                    None => "stalls are those of the whole machine",
                };
                format!("{bytes} bytes by a memory cgroup (v1), {swap}; {stalls}.")
            }
            How::V2(limit) => {
                format!("{bytes} bytes by a memory cgroup (v2), {}.", limit.describe_swap())
            }
            How::Systemd(_) => format!("{bytes} bytes by a systemd scope, without swap."),
            How::Nothing(reasons) => format!(
                "None: {}. The page cache may take all of the machine's memory: a database that \
                 fits in it is read from memory regardless of compactions, and figures of page \
                 cache and stalls are those of the whole machine.",
                reasons.join("; ")
            ),
        };
        if let Some(sentence) = self.lru.describe() {
            text = format!("{text} {sentence}");
        }
        text
    }

    /// Returns the cgroups in which the kernel accounts for a process that was started inside the
    /// limit.
    pub fn paths(&self, process: u32) -> Paths {
        match &self.how {
            How::V1 { memory, unified } => Paths {
                memory: Some(MemoryGroup::V1(memory.group().path().to_owned())),
                pressure: unified.as_ref().map(|group| group.path().to_owned()),
            },
            How::V2(limit) => {
                let path = limit.group().path().to_owned();
                Paths { memory: Some(MemoryGroup::V2(path.clone())), pressure: Some(path) }
            }
            How::Systemd(_) => Paths::of_process(&self.host.system, process),
            How::Nothing(_) => Paths::default(),
        }
    }

    /// Returns what a sampler must observe for a process that was started inside the limit: the
    /// process, its cgroups, and the device of `directory`.
    pub fn target(&self, directory: &Path, process: u32) -> Target {
        let target = Target::new(&self.host.system, directory).process(process);
        self.paths(process).watch(target)
    }
}

impl How {
    /// Returns the cgroups that a child process enters when it starts.
    fn groups(&self) -> impl Iterator<Item = &Group> {
        let (first, second) = match self {
            Self::V1 { memory, unified } => (Some(memory.group()), unified.as_ref()),
            Self::V2(limit) => (Some(limit.group()), None),
            Self::Systemd(_) | Self::Nothing(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl Paths {
    /// Returns the cgroups of a process, whether or not it was started through a limit.
    pub fn of_process(system: &System, process: u32) -> Self {
        let Some(mountinfo) = system.read("/proc/self/mountinfo") else { return Self::default() };
        let mounts = mounts::parse(&mountinfo);
        let cgroup = system.read(format!("/proc/{process}/cgroup")).unwrap_or_default();
        let unified = of_process(&mounts, &cgroup, None);
        let has_memory =
            unified.as_ref().is_some_and(|path| system.has(path.join("memory.current")));
        let memory = match of_process(&mounts, &cgroup, Some("memory")) {
            Some(path) => Some(MemoryGroup::V1(path)),
            None => unified.clone().filter(|_| has_memory).map(MemoryGroup::V2),
        };
        let pressure = unified.filter(|path| system.has(path.join("memory.pressure")));
        Self { memory, pressure }
    }

    /// Adds these cgroups to `target`, so that their kernel counters are sampled too.
    #[must_use]
    pub fn watch(self, mut target: Target) -> Target {
        if let Some(pressure) = self.pressure {
            target = target.pressure_group(pressure);
        }
        if let Some(memory) = self.memory {
            target = target.group(memory);
        }
        target
    }
}

/// Tries the methods in order and returns the first that works.
fn choose(host: &Host, places: &hierarchy::Places, name: &str, bytes: u64) -> Result<How, Failure> {
    let mut reasons = Vec::new();
    let group = |parent: &Result<PathBuf, String>| match parent {
        Ok(parent) => Group::new(&host.system, parent, name).map_err(|error| error.to_string()),
        Err(reason) => Err(reason.clone()),
    };
    match group(&places.v1) {
        Ok(group) => {
            let memory = GroupLimit::v1(group, bytes)?;
            let unified = places.unified.as_ref();
            let unified = unified.and_then(|parent| Group::new(&host.system, parent, name).ok());
            return Ok(How::V1 { memory, unified });
        }
        Err(reason) => reasons.push(format!("cgroup v1: {reason}")),
    }
    match group(&places.v2) {
        Ok(group) => return Ok(How::V2(GroupLimit::v2(group, bytes)?)),
        Err(reason) => reasons.push(format!("cgroup v2: {reason}")),
    }
    match Scopes::new(host, name, bytes) {
        Ok(scopes) => return Ok(How::Systemd(Arc::new(scopes))),
        Err(reason) => reasons.push(format!("systemd-run: {reason}")),
    }
    Ok(How::Nothing(reasons))
}
