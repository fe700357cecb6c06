//! Memory cgroups: their directories, limits and counters.

use std::path::{Path, PathBuf};

use super::System;
use super::mounts::Mount;
use super::page_cache::PageCache;
use super::text::figure;

/// A memory cgroup, identified by its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryGroup {
    /// A group of cgroup v1, in the hierarchy of the memory controller.
    V1(PathBuf),
    /// A group of cgroup v2, in the unified hierarchy.
    V2(PathBuf),
}

impl MemoryGroup {
    /// Returns the group's directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::V1(path) | Self::V2(path) => path,
        }
    }

    /// Returns the counters of the group's page cache; `None` if the group no longer exists.
    pub fn page_cache(&self, system: &System) -> Option<PageCache> {
        let text = system.read(self.path().join("memory.stat"))?;
        let page_bytes = rustix::param::page_size() as u64;
        Some(match self {
            Self::V1(_) => PageCache::of_group_v1(&text, page_bytes),
            Self::V2(_) => PageCache::of_group_v2(&text, page_bytes),
        })
    }

    /// Returns the lowest memory limit of the group and its ancestors, in bytes; `None` if none of
    /// them has a limit. In cgroup v2, only the ancestors up to the directory `top` are considered.
    pub fn limit(&self, system: &System, top: Option<&Path>) -> Option<u64> {
        match self {
            Self::V1(path) => {
                let limit =
                    figure(&system.read(path.join("memory.stat"))?, "hierarchical_memory_limit")?;
                // If there is no limit, the kernel reports a number near the largest 64-bit number.
                (limit < 1 << 62).then_some(limit)
            }
            Self::V2(path) => {
                let is_below = |path: &&Path| top.is_none_or(|top| path.starts_with(top));
                let groups = path.ancestors().take_while(is_below);
                groups.filter_map(|group| system.number(group.join("memory.max"))).min()
            }
        }
    }

    /// Returns the number of times that the group reached its memory limit. `None` in cgroup v1:
    /// there the kernel's counter `memory.failcnt` stays 0 even at the limit, at least in Linux
    /// 6.18.
    pub fn limit_hits(&self, system: &System) -> Option<u64> {
        match self {
            Self::V1(_) => None,
            Self::V2(path) => figure(&system.read(path.join("memory.events"))?, "max"),
        }
    }

    /// Returns the number of processes of the group that were killed because memory ran out.
    pub fn kills(&self, system: &System) -> Option<u64> {
        match self {
            Self::V1(path) => figure(&system.read(path.join("memory.oom_control"))?, "oom_kill"),
            Self::V2(path) => figure(&system.read(path.join("memory.events"))?, "oom_kill"),
        }
    }
}

/// Returns the directory of the group that contains a process. `cgroup` is the text of the
/// process's `/proc/PID/cgroup`. `controller` names the controller whose cgroup v1 hierarchy to
/// look in; `None` selects the unified hierarchy of cgroup v2.
pub fn of_process(mounts: &[Mount], cgroup: &str, controller: Option<&str>) -> Option<PathBuf> {
    let mount = hierarchy(mounts, controller)?;
    let path = cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let is_it = match controller {
            Some(controller) => controllers.split(',').any(|name| name == controller),
            None => number == "0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    })?;
    // The mount may show only a part of the hierarchy, as in a container that has no cgroup
    // namespace of its own. A group outside that part is not visible.
    let below = Path::new(path).strip_prefix(&mount.part).ok()?;
    Some(if below.as_os_str().is_empty() { mount.target.clone() } else { mount.target.join(below) })
}

/// Returns the mount of a hierarchy: the cgroup v1 hierarchy of `controller` or, for `None`, the
/// unified hierarchy of cgroup v2.
pub fn hierarchy<'a>(mounts: &'a [Mount], controller: Option<&str>) -> Option<&'a Mount> {
    mounts.iter().find(|mount| match controller {
        Some(controller) => {
            let mut options = mount.filesystem_options.split(',');
            mount.kind == "cgroup" && options.any(|option| option == controller)
        }
        None => mount.kind == "cgroup2",
    })
}
