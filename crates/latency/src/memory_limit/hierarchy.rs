//! Finds the parent cgroups in which new memory cgroups can be created.

use std::path::{Path, PathBuf};

use tailwater_io::kernel::System;
use tailwater_io::kernel::group::{hierarchy, of_process};
use tailwater_io::kernel::mounts::{self, Mount};

use crate::files;

/// A cgroup v1 limit of at least this many bytes means "unlimited".
const UNLIMITED: u64 = 1 << 60;

/// The parent cgroup of new groups in each hierarchy, or the reason why groups cannot be created
/// there.
#[derive(Debug)]
pub(super) struct Places {
    /// The parent cgroup of new groups in the memory hierarchy of cgroup v1.
    pub(super) v1: Result<PathBuf, String>,
    /// The parent cgroup of new groups in the unified hierarchy, even if that hierarchy has no
    /// memory controller.
    pub(super) unified: Option<PathBuf>,
    /// The parent cgroup of new groups in the unified hierarchy (cgroup v2), if that hierarchy has
    /// the memory controller.
    pub(super) v2: Result<PathBuf, String>,
}

/// Finds the cgroups in which this program creates new groups.
pub(super) fn places(system: &System) -> Places {
    let mounts = mounts::parse(&system.read("/proc/self/mountinfo").unwrap_or_default());
    let cgroup = system.read("/proc/self/cgroup").unwrap_or_default();
    Places {
        v1: v1(system, &mounts, &cgroup),
        unified: hierarchy(&mounts, None).map(|mount| mount.target.clone()),
        v2: v2(system, &mounts, &cgroup),
    }
}

/// Returns the cgroup v1 group in which new groups are created. If the process's own group has a
/// limit, new groups are created inside it, because they must not escape that limit. Otherwise they
/// are created at the root of the hierarchy. There every later run finds the groups that killed
/// runs have left behind.
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

/// Returns the parent of new groups in cgroup v2: the closest ancestor of the process's group that
/// delegates the memory controller. A group that delegates it contains no processes, so the result
/// is not the process's own group. If there is none, tries to delegate the controller at the root.
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
    match files::write_setting(&top, "+memory") {
        Ok(()) => Ok(mount.target.clone()),
        Err(error) => Err(format!("the memory controller is not delegated: {error}")),
    }
}
