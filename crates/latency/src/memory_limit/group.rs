//! One cgroup and its settings.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tailwater_io::kernel::System;

use super::files;

/// Number of attempts at operations that fail while processes end or memory is reclaimed, and the
/// pause between them.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A cgroup. When the value is dropped, the processes in the group are killed and the group is
/// removed.
#[derive(Debug)]
pub(super) struct Group {
    system: System,
    /// The group's path below the system's root.
    path: PathBuf,
}

impl Group {
    /// Creates a group, and checks that it is usable by moving a process into it.
    pub(super) fn new(system: &System, parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        files::make_directory(&system.path(&path))?;
        let group = Self { system: system.clone(), path };
        let enter = ["-c", "echo $$ >\"$0/cgroup.procs\""];
        let output = Command::new("sh").args(enter).arg(group.directory()).output()?;
        if output.status.success() {
            return Ok(group);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(said))
    }

    /// Returns the group's path below the system's root.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the group's files.
    pub(super) fn directory(&self) -> PathBuf {
        self.system.path(&self.path)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        files::write(&self.directory().join(name), text)
    }

    /// Writes a limit, and retries while the kernel reclaims memory.
    fn write_limit(&self, name: &str, bytes: u64) -> io::Result<()> {
        let mut tries = 0;
        loop {
            match self.write(name, &bytes.to_string()) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries < TRIES => {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                }
                written => return written,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        end(&self.directory());
    }
}

/// Kills the processes in a group and removes it. If that fails, the group stays for the next run
/// to remove.
pub(super) fn end(directory: &Path) {
    for _ in 0..TRIES {
        kill(directory);
        match files::remove_directory(directory) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

fn kill(directory: &Path) {
    let all_at_once = directory.join("cgroup.kill");
    if all_at_once.exists() && files::write(&all_at_once, "1").is_ok() {
        return;
    }
    let processes = files::read(&directory.join("cgroup.procs")).unwrap_or_default();
    // Processes outside this process's namespace are shown as 0.
    let seen = processes.lines().filter_map(|line| line.parse().ok().filter(|&number| number > 1));
    for process in seen.filter_map(Pid::from_raw) {
        // The process may have ended.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// A limit in cgroup v1.
#[derive(Debug)]
pub(super) struct V1Limit {
    group: Group,
    bytes: u64,
    counts_swap: bool,
}

impl V1Limit {
    pub(super) fn new(group: Group, bytes: u64) -> io::Result<Self> {
        let parent = group.path.parent().unwrap_or(&group.path);
        let counts_swap = group.system.has(parent.join(V1_WITH_SWAP));
        let mut limit = Self { group, bytes: u64::MAX, counts_swap };
        limit.set(bytes)?;
        Ok(limit)
    }

    /// Sets the limit. The limit including swap must never be below the limit without it.
    pub(super) fn set(&mut self, bytes: u64) -> io::Result<()> {
        let with_swap = || match self.counts_swap {
            true => self.group.write_limit(V1_WITH_SWAP, bytes),
            false => Ok(()),
        };
        if bytes > self.bytes {
            with_swap()?;
            self.group.write_limit(V1_WITHOUT_SWAP, bytes)?;
        } else {
            self.group.write_limit(V1_WITHOUT_SWAP, bytes)?;
            with_swap()?;
        }
        self.bytes = bytes;
        Ok(())
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    pub(super) fn describe_swap(&self) -> &'static str {
        match self.counts_swap {
            true => "swap included",
            false => unlimited_swap(&self.group.system),
        }
    }
}

const V1_WITHOUT_SWAP: &str = "memory.limit_in_bytes";
const V1_WITH_SWAP: &str = "memory.memsw.limit_in_bytes";

/// A limit in cgroup v2.
#[derive(Debug)]
pub(super) struct V2Limit {
    group: Group,
    refuses_swap: bool,
}

impl V2Limit {
    pub(super) fn new(group: Group, bytes: u64) -> io::Result<Self> {
        // A kernel that does not account for swap does not have this file, and the write fails.
        let refuses_swap = group.write("memory.swap.max", "0").is_ok();
        let mut limit = Self { group, refuses_swap };
        limit.set(bytes)?;
        Ok(limit)
    }

    pub(super) fn set(&mut self, bytes: u64) -> io::Result<()> {
        self.group.write_limit("memory.max", bytes)
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    pub(super) fn describe_swap(&self) -> &'static str {
        match self.refuses_swap {
            true => "without swap",
            false => unlimited_swap(&self.group.system),
        }
    }
}

/// Returns the consequence of not limiting swap.
fn unlimited_swap(system: &System) -> &'static str {
    let memory = system.read("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
    match line.and_then(|line| line.split_ascii_whitespace().next()) {
        Some("0") => "swap not counted; the machine has none",
        _ => "swap not included, since the kernel does not count it",
    }
}
