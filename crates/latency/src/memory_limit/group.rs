//! One cgroup and its settings.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tailwater_io::kernel::System;

use super::files;

/// Maximum number of retries of an operation that fails while processes are ending or memory is
/// being reclaimed. [`PAUSE`] is the time between two attempts.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A cgroup. When the value is dropped, the processes in the group are killed and the group is
/// removed.
#[derive(Debug)]
pub(super) struct Group {
    system: System,
    /// The path of the group, relative to the root of `system`.
    path: PathBuf,
}

impl Group {
    /// Creates a group, and checks that processes can enter it by starting one that does.
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

    /// Returns the path of the group on the machine. If a test imitates the machine in a directory,
    /// the path is relative to that directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the group's files, as this process opens it. If a test imitates the
    /// machine in a directory, the path includes that directory.
    pub(super) fn directory(&self) -> PathBuf {
        self.system.path(&self.path)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        files::write(&self.directory().join(name), text)
    }

    /// Writes a limit. While the kernel is reclaiming memory, the write fails with EBUSY and is
    /// retried.
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

/// Kills the processes in a group and removes the group. If that fails, the group remains and a
/// later run removes it.
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
    // Processes that this process's PID namespace cannot see are shown as 0. Never kill process 1.
    let seen = processes.lines().filter_map(|line| line.parse().ok().filter(|&number| number > 1));
    for process in seen.filter_map(Pid::from_raw) {
        // An error is ignored, because the process may have ended meanwhile.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// A memory limit in cgroup v1.
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

    /// Sets the limit in bytes. The limit of memory plus swap must never be below the limit of
    /// memory alone, so the order of the two writes depends on whether the limit rises or falls.
    pub(super) fn set(&mut self, bytes: u64) -> io::Result<()> {
        let with_swap =
            || if self.counts_swap { self.group.write_limit(V1_WITH_SWAP, bytes) } else { Ok(()) };
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
        if self.counts_swap { "swap included" } else { unlimited_swap(&self.group.system) }
    }
}

const V1_WITHOUT_SWAP: &str = "memory.limit_in_bytes";
const V1_WITH_SWAP: &str = "memory.memsw.limit_in_bytes";

/// A memory limit in cgroup v2.
#[derive(Debug)]
pub(super) struct V2Limit {
    group: Group,
    refuses_swap: bool,
}

impl V2Limit {
    pub(super) fn new(group: Group, bytes: u64) -> io::Result<Self> {
        // If the kernel does not account for swap, the file does not exist and the write fails.
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
        if self.refuses_swap { "without swap" } else { unlimited_swap(&self.group.system) }
    }
}

/// Returns a phrase for the report that explains the consequence of unlimited swap.
fn unlimited_swap(system: &System) -> &'static str {
    let memory = system.read("/proc/meminfo").unwrap_or_default();
    let line = memory.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
    match line.and_then(|line| line.split_ascii_whitespace().next()) {
        Some("0") => "swap not counted; the machine has none",
        _ => "swap not included, since the kernel does not count it",
    }
}
