//! One cgroup and its settings.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tailwater_io::kernel::System;

use crate::files;

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
        files::create_group(&system.path(&path))?;
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
        files::write_setting(&self.directory().join(name), text)
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
        match files::remove_group(directory) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

fn kill(directory: &Path) {
    let all_at_once = directory.join("cgroup.kill");
    if all_at_once.exists() && files::write_setting(&all_at_once, "1").is_ok() {
        return;
    }
    let processes = files::read_text(&directory.join("cgroup.procs")).unwrap_or_default();
    // Processes that this process's PID namespace cannot see are shown as 0. Never kill process 1.
    let seen = processes.lines().filter_map(|line| line.parse().ok().filter(|&number| number > 1));
    for process in seen.filter_map(Pid::from_raw) {
        // An error is ignored, because the process may have ended meanwhile.
        let _ = kill_process(process, Signal::KILL);
    }
}

/// A memory limit by a cgroup.
#[derive(Debug)]
pub(super) struct GroupLimit {
    group: Group,
    bytes: u64,
    /// The file of the limit of memory alone.
    memory: &'static str,
    /// The file of the limit of memory plus swap, if there is one.
    with_swap: Option<&'static str>,
    swap: &'static str,
}

impl GroupLimit {
    /// Creates a limit in cgroup v1, including swap if the kernel accounts for it.
    pub(super) fn v1(group: Group, bytes: u64) -> io::Result<Self> {
        const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";
        let parent = group.path.parent().unwrap_or(&group.path);
        let with_swap = group.system.has(parent.join(WITH_SWAP)).then_some(WITH_SWAP);
        let swap = with_swap.map_or_else(|| unlimited_swap(&group.system), |_| "swap included");
        let memory = "memory.limit_in_bytes";
        let mut limit = Self { group, bytes: u64::MAX, memory, with_swap, swap };
        limit.set(bytes)?;
        Ok(limit)
    }

    /// Creates a limit in cgroup v2, in which swap is forbidden if the kernel supports that.
    pub(super) fn v2(group: Group, bytes: u64) -> io::Result<Self> {
        // If the kernel does not account for swap, the file does not exist and the write fails.
        let refuses_swap = group.write("memory.swap.max", "0").is_ok();
        let swap = if refuses_swap { "without swap" } else { unlimited_swap(&group.system) };
        let mut limit = Self { group, bytes, memory: "memory.max", with_swap: None, swap };
        limit.set(bytes)?;
        Ok(limit)
    }

    /// Sets the limit in bytes. The limit of memory plus swap must never be below the limit of
    /// memory alone, so the order of the two writes depends on whether the limit rises or falls.
    pub(super) fn set(&mut self, bytes: u64) -> io::Result<()> {
        let mut files = [Some(self.memory), self.with_swap];
        if bytes > self.bytes {
            files.reverse();
        }
        files.into_iter().flatten().try_for_each(|file| self.group.write_limit(file, bytes))?;
        self.bytes = bytes;
        Ok(())
    }

    pub(super) fn group(&self) -> &Group {
        &self.group
    }

    pub(super) fn describe_swap(&self) -> &'static str {
        self.swap
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
