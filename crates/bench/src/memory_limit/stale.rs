//! Groups of runs that ended without removing them.
//!
//! A group is called `tailwater-limit-NAMESPACE-PROCESS-START-NUMBER-LRU`: the process that made
//! it; the namespace of its number, since a container's processes have numbers of their own, and
//! those of another cannot be judged; when it began, so that another process with its number is not
//! taken for it; how many it had made before; and what the multi-generational LRU is to be put back
//! to, in hexadecimal.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_io::kernel::System;

use super::{group, lru};

const PREFIX: &str = "tailwater-limit-";

/// The name of a new group of this process.
pub(super) fn name(system: &System, lru_mask: u32) -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let start = start(system, process).unwrap_or(0);
    let (namespace, number) = (namespace(system), MADE.fetch_add(1, Relaxed));
    format!("{PREFIX}{namespace}-{process}-{start}-{number}-{lru_mask:x}")
}

/// Removes groups whose process is gone, ends what runs in them, and puts back what it had switched
/// off.
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

/// The number of the namespace that this process's number is in; 0 where it is not told.
fn namespace(system: &System) -> u64 {
    let link = std::fs::read_link(system.path("/proc/self/ns/pid")).unwrap_or_default();
    let digits = link.to_string_lossy().replace(|character: char| !character.is_ascii_digit(), "");
    digits.parse().unwrap_or(0)
}

/// When a process began, in clock ticks after the machine did: the 22nd field of its `stat`.
fn start(system: &System, process: u32) -> Option<u64> {
    let stat = system.read(format!("/proc/{process}/stat"))?;
    // The second field is a name in parentheses, which may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
