//! Removes groups left behind by earlier runs.
//!
//! A group is named `tailwater-limit-NAMESPACE-PROCESS-START-NUMBER-LRU`: the PID namespace of its
//! creator, because processes of other namespaces cannot be checked; the creator's process id; the
//! creator's start time, so that another process with the same id is not mistaken for it; the
//! number of groups that the creator had created before; and the setting of the multi-generational
//! LRU to restore, in hexadecimal.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_io::kernel::System;

use super::{group, lru};

const PREFIX: &str = "tailwater-limit-";

/// Returns the name of a new group of this process.
pub(super) fn name(system: &System, lru_mask: u32) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let start = start(system, process).unwrap_or(0);
    let (namespace, number) = (namespace(system), MADE.fetch_add(1, Relaxed));
    format!("{PREFIX}{namespace}-{process}-{start}-{number}-{lru_mask:x}")
}

/// Removes groups whose process is gone, kills the processes in them, and restores the LRU setting.
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

/// Returns the PID namespace of this process; 0 if it is unknown.
fn namespace(system: &System) -> u64 {
    let link = std::fs::read_link(system.path("/proc/self/ns/pid")).unwrap_or_default();
    let digits = link.to_string_lossy().replace(|character: char| !character.is_ascii_digit(), "");
    digits.parse().unwrap_or(0)
}

/// Returns the start time of a process, in clock ticks since boot: the 22nd field of its `stat`.
fn start(system: &System, process: u32) -> Option<u64> {
    let stat = system.read(format!("/proc/{process}/stat"))?;
    // The second field is a name in parentheses, which may contain any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
