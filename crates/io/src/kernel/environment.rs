//! The environment of a measurement: machine, kernel, filesystem and device, which are reported
//! together with the measured figures.

use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

use super::mounts::{self, Mount};
use super::text::figure;
use super::{Device, System};

/// The machine, its kernel, and the filesystem and the device on which a directory is stored. A
/// value is `None` if the system does not report it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Environment {
    /// The kernel's release: `6.18.5`.
    pub kernel: String,
    /// The kernel's preemption model: `none`, `voluntary`, `full`, `lazy`, `rt`.
    pub preemption: Option<String>,
    /// Scheduler ticks per second.
    pub ticks_per_second: Option<u32>,
    /// Number of processors that this process may use.
    pub processors: Option<usize>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Size of the swap space, in bytes.
    pub swap_bytes: Option<u64>,
    /// The filesystem that contains the directory.
    pub filesystem: Option<Filesystem>,
    /// The device on which `filesystem` is stored.
    pub device: Option<Device>,
    /// The running schemes of DAMON, the kernel's data access monitor, by their actions. An example
    /// is `pageout`, which evicts page cache even without memory pressure. `None` if the kernel has
    /// no DAMON or does not show its schemes, and empty if none is running.
    pub damon: Option<Vec<String>>,
    /// The bit mask of enabled parts of the multi-generational LRU, from `lru_gen/enabled`; 0 if it
    /// is off. `None` if the kernel does not have it.
    pub multi_generational_lru: Option<u32>,
    /// Whether processes may use io_uring.
    pub io_uring: Option<IoUring>,
}

/// The filesystem of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystem {
    /// The filesystem's type, such as `ext4`.
    pub kind: String,
    /// The filesystem's mount options.
    pub options: String,
    /// How the filesystem keeps its metadata consistent across a crash: `none`, ext4's `ordered`,
    /// `writeback` or `journal`, `metadata log`, or `copy on write`. `None` if that is not known.
    pub journal: Option<String>,
}

/// Whether processes may use io_uring, according to the system's settings. Only an attempt to use
/// io_uring shows it for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoUring {
    /// All processes may use io_uring.
    Allowed,
    /// io_uring is not disabled, but this process has a system call filter (seccomp). In containers
    /// such a filter usually forbids io_uring.
    Filtered,
    /// Only privileged processes and one group of users may use io_uring.
    Restricted,
    /// No process may use io_uring.
    Disabled,
}

impl IoUring {
    /// Returns the word that denotes this value in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Filtered => "filtered",
            Self::Restricted => "restricted",
            Self::Disabled => "disabled",
        }
    }
}

impl Environment {
    /// Returns the environment of a measurement on an existing directory.
    pub fn of_directory(system: &System, directory: &Path) -> Self {
        let device = Device::of_directory(system, directory);
        let filesystem = filesystem(system, directory, device.as_ref());
        let memory = system.read("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| figure(&memory, name).map(|kib| kib << 10);
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Self {
            preemption: preemption(system, &release),
            kernel: release,
            ticks_per_second: ticks_per_second(),
            processors: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: kib("MemTotal:"),
            swap_bytes: kib("SwapTotal:"),
            filesystem,
            device,
            damon: damon(system),
            multi_generational_lru: multi_generational_lru(system),
            io_uring: io_uring(system),
        }
    }
}

/// Returns the number of scheduler ticks per second. The resolution of the coarse clock is one
/// tick.
fn ticks_per_second() -> Option<u32> {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    u32::try_from(1_000_000_000_i64.checked_div(tick.tv_nsec)?).ok()
}

/// Returns the preemption model, from the first of these sources that states it: the scheduler's
/// file in debugfs, which only root may read, the kernel's version, its command line, and its build
/// configuration.
fn preemption(system: &System, release: &str) -> Option<String> {
    if let Some(modes) = system.word("/sys/kernel/debug/sched/preempt") {
        // The preemption model in use is in parentheses: `none (voluntary) full`.
        let in_use = modes.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        return Some(in_use.map_or(modes.as_str(), |(mode, _)| mode).to_owned());
    }
    if system.read("/proc/version").is_some_and(|version| version.contains("PREEMPT_RT")) {
        return Some("rt".to_owned());
    }
    let command_line = system.read("/proc/cmdline").unwrap_or_default();
    let requested =
        command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix("preempt="));
    requested
        .map(str::to_owned)
        .or_else(|| Some(built_preemption(&configuration(system, release)?)?.to_owned()))
}

/// Returns the text of the kernel's build configuration; `None` if neither the kernel nor its
/// package provides it.
fn configuration(system: &System, release: &str) -> Option<String> {
    if let Some(text) = system.read(format!("/boot/config-{release}")) {
        return Some(text);
    }
    let mut text = String::new();
    GzDecoder::new(&*system.bytes("/proc/config.gz")?).read_to_string(&mut text).ok()?;
    Some(text)
}

pub(super) fn built_preemption(configuration: &str) -> Option<&'static str> {
    let modes = [
        ("CONFIG_PREEMPT_RT=y", "rt"),
        ("CONFIG_PREEMPT_NONE=y", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY=y", "voluntary"),
        ("CONFIG_PREEMPT_LAZY=y", "lazy"),
        ("CONFIG_PREEMPT=y", "full"),
    ];
    let has = |option: &str| configuration.lines().any(|line| line == option);
    modes.into_iter().find_map(|(option, mode)| has(option).then_some(mode))
}

fn filesystem(system: &System, directory: &Path, device: Option<&Device>) -> Option<Filesystem> {
    let mounts = mounts::parse(&system.read("/proc/self/mountinfo")?);
    let mount = mounts::of_path(&mounts, &directory.canonicalize().ok()?)?;
    Some(Filesystem {
        kind: mount.kind.clone(),
        options: format!("{},{}", mount.options, mount.filesystem_options),
        journal: journal(system, mount, device),
    })
}

pub(super) fn journal(system: &System, mount: &Mount, device: Option<&Device>) -> Option<String> {
    let journal = match mount.kind.as_str() {
        "ext2" | "tmpfs" => "none",
        "xfs" => "metadata log",
        "btrfs" | "zfs" | "bcachefs" => "copy on write",
        "ext3" | "ext4" => {
            let name = device?.filesystem_name();
            let task = system.word(format!("/sys/fs/ext4/{name}/journal_task"))?;
            match mounts::option(&mount.filesystem_options, "data") {
                _ if task == "<none>" => "none",
                Some(mode) => mode,
                None => "ordered",
            }
        }
        _ => return None,
    };
    Some(journal.to_owned())
}

fn damon(system: &System) -> Option<Vec<String>> {
    let mut actions = Vec::new();
    let mut is_known = false;
    let threads = Path::new("/sys/kernel/mm/damon/admin/kdamonds");
    is_known |= system.has(threads);
    for thread in system.names(threads) {
        if system.word(threads.join(&thread).join("state")).as_deref() != Some("on") {
            continue;
        }
        let contexts = threads.join(&thread).join("contexts");
        for context in system.names(&contexts) {
            let schemes = contexts.join(context).join("schemes");
            let names = system.names(&schemes);
            actions.extend(
                names.iter().filter_map(|name| system.word(schemes.join(name).join("action"))),
            );
        }
    }
    for module in ["damon_reclaim", "damon_lru_sort"] {
        let enabled = system.word(format!("/sys/module/{module}/parameters/enabled"));
        is_known |= enabled.is_some();
        if enabled.as_deref() == Some("Y") {
            actions.push(module.to_owned());
        }
    }
    is_known.then_some(actions)
}

fn multi_generational_lru(system: &System) -> Option<u32> {
    let mask = system.word("/sys/kernel/mm/lru_gen/enabled")?;
    u32::from_str_radix(mask.trim_start_matches("0x"), 16).ok()
}

fn io_uring(system: &System) -> Option<IoUring> {
    let is_filtered = || {
        let status = system.read("/proc/self/status").unwrap_or_default();
        figure(&status, "Seccomp:") == Some(2)
    };
    match system.number("/proc/sys/kernel/io_uring_disabled") {
        // Kernels before 6.6 have no setting that disables io_uring, but a system call filter may
        // forbid it.
        Some(0) | None if is_filtered() => Some(IoUring::Filtered),
        Some(0) => Some(IoUring::Allowed),
        Some(1) => Some(IoUring::Restricted),
        Some(2) => Some(IoUring::Disabled),
        _ => None,
    }
}

impl Environment {
    /// Returns all values as text, each with its name in reports. A value that is not known is
    /// `unknown`.
    pub fn named(&self) -> Vec<(&'static str, String)> {
        let device = self.device.clone().unwrap_or_default();
        let filesystem = self.filesystem.as_ref();
        let damon = self.damon.as_ref().map(|actions| match actions.as_slice() {
            [] => "off".to_owned(),
            actions => actions.join(" "),
        });
        let lru = self.multi_generational_lru.map_or("not there".to_owned(), |mask| {
            if mask == 0 { "off".to_owned() } else { format!("{mask:#06x}") }
        });
        let name = (!device.name.is_empty()).then(|| device.filesystem_name().to_owned());
        let mut named = vec![
            ("kernel", self.kernel.clone()),
            ("preemption", or_unknown(self.preemption.as_ref())),
            ("ticks_per_second", or_unknown(self.ticks_per_second)),
            ("processors", or_unknown(self.processors)),
            ("memory_bytes", or_unknown(self.memory_bytes)),
            ("swap_bytes", or_unknown(self.swap_bytes)),
            ("filesystem", or_unknown(filesystem.map(|filesystem| &filesystem.kind))),
            ("mount_options", or_unknown(filesystem.map(|filesystem| &filesystem.options))),
            ("journal", or_unknown(filesystem.and_then(|filesystem| filesystem.journal.as_ref()))),
            ("device", or_unknown(name)),
        ];
        named.extend([
            ("rotational", or_unknown(device.is_rotational)),
            ("fua", or_unknown(device.has_fua)),
            ("volatile_write_cache", or_unknown(device.has_volatile_cache)),
            ("read_ahead_kib", or_unknown(device.read_ahead_kib)),
            ("max_sectors_kib", or_unknown(device.max_sectors_kib)),
            ("io_scheduler", or_unknown(device.scheduler)),
            ("queue_requests", or_unknown(device.queue_requests)),
            ("damon", or_unknown(damon)),
            ("multi_generational_lru", lru),
            ("io_uring", or_unknown(self.io_uring.map(IoUring::name))),
        ]);
        named
    }
}

fn or_unknown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}
