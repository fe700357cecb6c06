//! The memory limit of a process and the memory left to it, computed from imitated kernel files.

use std::path::Path;

use tailwater_io::kernel::{Memory, MemoryLeft, System};

use crate::put;

const MIB: u64 = 1 << 20;

fn machine(root: &Path) {
    put(
        root,
        "/proc/meminfo",
        "MemTotal:  4194304 kB\nMemFree: 1048576 kB\nMemAvailable:  2097152 kB\n",
    );
}

fn memory(root: &Path) -> Memory {
    Memory::of_this_process(System::at(root))
}

/// Imitates a machine on which the process is in a memory cgroup. `mount` is the end of the
/// hierarchy's line in `mountinfo`, and `cgroup` the content of `/proc/self/cgroup`.
fn machine_with_group(mount: &str, cgroup: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a directory");
    machine(root.path());
    put(root.path(), "/proc/self/mountinfo", &format!("30 1 0:26 / /sys/fs/cgroup{mount}\n"));
    put(root.path(), "/proc/self/cgroup", cgroup);
    root
}

#[test]
fn without_a_group_the_limit_is_the_machines_memory() {
    let root = tempfile::tempdir().expect("a directory");
    machine(root.path());
    let memory = memory(root.path());
    assert_eq!(memory.limit(), Some(4096 * MIB));
    let left =
        MemoryLeft { limit: 4096 * MIB, available: 2048 << 20, free: 1024 << 20, stalled_us: None };
    assert_eq!(memory.left(), Some(left));
    let nothing = tempfile::tempdir().expect("a directory");
    assert_eq!(Memory::of_this_process(System::at(nothing.path())).left(), None);
}

#[test]
fn the_cgroup_v2_limit_is_the_lowest_of_all_ancestors() {
    let root = machine_with_group(" rw - cgroup2 cgroup2 rw,nsdelegate", "0::/outer/inner\n");
    let root = root.path();
    let group = "/sys/fs/cgroup/outer/inner";
    put(root, &format!("{group}/memory.max"), "max\n");
    put(root, "/sys/fs/cgroup/outer/memory.max", "1073741824\n");
    // 1000 MiB are charged to the outer group: 900 MiB by the inner group, and 100 MiB by a
    // neighbour.
    put(root, "/sys/fs/cgroup/outer/memory.current", "1048576000\n");
    put(
        root,
        "/sys/fs/cgroup/outer/memory.stat",
        "active_file 104857600\ninactive_file 209715200\n",
    );
    put(root, &format!("{group}/memory.current"), "943718400\n");
    put(
        root,
        &format!("{group}/memory.stat"),
        "anon 419430400\nfile 524288000\nactive_file 104857600\ninactive_file 209715200\n",
    );
    put(root, &format!("{group}/memory.pressure"), "some avg10=0.00 total=77\nfull total=5\n");
    let memory = memory(root);
    assert_eq!(memory.limit(), Some(1024 * MIB));
    // 1024 MiB is the limit, and 1000 MiB are charged, of which 300 MiB are file pages that can be
    // reclaimed.
    let left = MemoryLeft {
        limit: 1024 * MIB,
        available: 324 << 20,
        free: 24 << 20,
        stalled_us: Some(77),
    };
    assert_eq!(memory.left(), Some(left));
    // Lower the limit to 512 MiB, below the usage: `available` becomes negative.
    put(root, "/sys/fs/cgroup/outer/memory.max", "536870912\n");
    assert_eq!(memory.left().map(|left| left.available), Some(-(188 << 20)));
}

#[test]
fn the_cgroup_v1_limit_includes_all_ancestors() {
    let root =
        machine_with_group("/memory rw - cgroup cgroup rw,memory", "7:memory:/limited\n0::/\n");
    let root = root.path();
    let group = "/sys/fs/cgroup/memory/limited";
    let stat = |limit: u64| {
        format!(
            "hierarchical_memory_limit {limit}\ntotal_active_file 0\ntotal_inactive_file 1048576\n"
        )
    };
    put(root, &format!("{group}/memory.stat"), &stat(256 * MIB));
    put(root, &format!("{group}/memory.usage_in_bytes"), "105906176\n");
    let memory = memory(root);
    let left =
        MemoryLeft { limit: 256 * MIB, available: 156 << 20, free: 155 << 20, stalled_us: None };
    assert_eq!(memory.left(), Some(left));
    put(root, &format!("{group}/memory.stat"), &stat(9_223_372_036_854_771_712));
    let left =
        MemoryLeft { limit: 4096 * MIB, available: 2048 << 20, free: 1024 << 20, stalled_us: None };
    assert_eq!(memory.left(), Some(left));
}
