//! Finds the parent groups below which a memory cgroup can be created.

use std::path::{Path, PathBuf};

use tailwater_io::kernel::System;
use tailwater_io::kernel::group::{hierarchy, of_process};
use tailwater_io::kernel::mounts::{self, Mount};

use super::files;

/// Value of a cgroup v1 limit above which it means "unlimited", in bytes.
const UNLIMITED: u64 = 1 << 60;

/// The parent group for new groups in each hierarchy, or the reason why there is none.
#[derive(Debug)]
pub(super) struct Places {
    /// In the memory hierarchy of cgroup v1.
    pub(super) v1: Result<PathBuf, String>,
    /// In the unified hierarchy, whether it has the memory controller or not.
    pub(super) unified: Option<PathBuf>,
    /// In the unified hierarchy, with the memory controller.
    pub(super) v2: Result<PathBuf, String>,
}

/// Returns the parent groups of a system.
pub(super) fn places(system: &System) -> Places {
    let mounts = mounts::parse(&system.read("/proc/self/mountinfo").unwrap_or_default());
    let cgroup = system.read("/proc/self/cgroup").unwrap_or_default();
    Places {
        v1: v1(system, &mounts, &cgroup),
        unified: hierarchy(&mounts, None).map(|mount| mount.target.clone()),
        v2: v2(system, &mounts, &cgroup),
    }
}

/// Returns the parent of new groups. This is the process's own group if it has a limit, because new
/// groups must not escape this limit. Otherwise it is the top of the hierarchy, where every later
/// run finds the groups that killed runs left behind.
fn v1(system: &System, mounts: &[Mount], cgroup: &str) -> Result<PathBuf, String> {
    let mount = hierarchy(mounts, Some("memory")).ok_or("no memory controller is mounted")?;
    let own = of_process(mounts, cgroup, Some("memory")).filter(|path| is_limited(system, path));
    Ok(own.unwrap_or_else(|| mount.target.clone()))
}

fn is_limited(system: &System, group: &Path) -> bool {
    let stat = system.read(group.join("memory.stat")).unwrap_or_default();
    let limit = stat.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
    limit.and_then(|limit| limit.trim().parse().ok()).is_some_and(|limit: u64| limit < UNLIMITED)
}

/// Returns the closest ancestor of the process's group that delegates the memory controller. Such a
/// group contains no processes, so it is never the process's own.
fn v2(system: &System, mounts: &[Mount], cgroup: &str) -> Result<PathBuf, String> {
    let mount = hierarchy(mounts, None).ok_or("it is not mounted")?;
    let has = |group: &Path, file: &str| {
        let controllers = system.word(group.join(file)).unwrap_or_default();
        controllers.split_ascii_whitespace().any(|name| name == "memory")
    };
    if !has(&mount.target, "cgroup.controllers") {
        return Err("it has no memory controller".to_owned());
    }
    let own = of_process(mounts, cgroup, None).unwrap_or_else(|| mount.target.clone());
    let above = own.ancestors().take_while(|group| group.starts_with(&mount.target));
    for group in above {
        if has(group, "cgroup.subtree_control") {
            return Ok(group.to_owned());
        }
    }
    let top = system.path(mount.target.join("cgroup.subtree_control"));
    match files::write(&top, "+memory") {
        Ok(()) => Ok(mount.target.clone()),
        Err(error) => Err(format!("the memory controller is not delegated: {error}")),
    }
}
