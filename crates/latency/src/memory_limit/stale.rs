//! Removes cgroups that were left behind by earlier runs of the program that were killed.
//!
//! The name of a group is `tailwater-limit-NAMESPACE-PROCESS-START-NUMBER-LRU`:
//! - NAMESPACE is the PID namespace of the process that created the group. Processes of other
//!   namespaces cannot be checked, so their groups are left alone.
//! - PROCESS is the id of that process.
//! - START is its start time, which distinguishes it from a later process with the same id.
//! - NUMBER is the number of groups that the process had created before.
//! - LRU is the setting of the multi-generational LRU to restore, in hexadecimal.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_io::kernel::System;

use super::{group, lru};

const PREFIX: &str = "tailwater-limit-";

/// Returns a name for a new cgroup of this process. The name contains `lru_mask`, the kernel's
/// earlier LRU setting, so that a later process can restore it.
pub(super) fn name(system: &System, lru_mask: u32) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let start = start(system, process).unwrap_or(0);
    let (namespace, number) = (namespace(system), MADE.fetch_add(1, Relaxed));
    format!("{PREFIX}{namespace}-{process}-{start}-{number}-{lru_mask:x}")
}

/// Cleans up each group in `parent` whose creator has ended. Kills the processes in the group,
/// removes the group, and restores the LRU setting that is encoded in the group's name.
pub(super) fn remove(system: &System, parent: &Path) {
    let own = namespace(system);
    for name in system.names(parent) {
        if let Some((namespace, process, began, lru_mask)) = parse(&name)
            && namespace == own
            && process != std::process::id()
            && start(system, process) != Some(began)
        {
            group::end(&system.path(parent.join(name)));
            lru::put_back(system, lru_mask);
        }
    }
}

fn parse(name: &str) -> Option<(u64, u32, u64, u32)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let namespace = parts.next()?.parse().ok()?;
    let process = parts.next()?.parse().ok()?;
    let start = parts.next()?.parse().ok()?;
    let _number: u64 = parts.next()?.parse().ok()?;
    let lru_mask = u32::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some((namespace, process, start, lru_mask))
}

/// Returns the number of this process's PID namespace; 0 if it is unknown.
fn namespace(system: &System) -> u64 {
    let link = std::fs::read_link(system.path("/proc/self/ns/pid")).unwrap_or_default();
    let digits = link.to_string_lossy().replace(|character: char| !character.is_ascii_digit(), "");
    digits.parse().unwrap_or(0)
}

/// Returns the start time of a process in clock ticks since boot (field 22 of `/proc/PID/stat`).
fn start(system: &System, process: u32) -> Option<u64> {
    let stat = system.read(format!("/proc/{process}/stat"))?;
    // Field 2 is the name of the program in parentheses. It may itself contain spaces and
    // parentheses, so split after the last one.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
