//! Tests of kinds of limits that this machine may not support. A directory tree imitates the
//! kernel's files.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tailwater_io::kernel::{MemoryGroup, System};
use tailwater_latency::memory_limit::{Host, MemoryLimit, Paths, evict};
use tailwater_testkit::filesystem::say;

use crate::{is_memory, put};

const LIMIT: u64 = 1 << 30;

fn host(root: &Path) -> Host {
    let program = |name: &str| root.join("bin").join(name);
    Host {
        system: System::at(root),
        systemd_run: program("systemd-run"),
        systemctl: program("systemctl"),
    }
}

fn limit(root: &Path) -> MemoryLimit {
    MemoryLimit::on(host(root), LIMIT).expect("a limit, or none")
}

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).expect("a file")
}

/// Imitates a system that has only the unified hierarchy (cgroup v2). This process is in a
/// session's scope below a slice, as under systemd.
fn play_v2(root: &Path) {
    put(root, "/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put(root, "/proc/self/cgroup", "0::/user.slice/user-0.slice/session-1.scope\n");
    put(root, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    put(root, "/sys/fs/cgroup/cgroup.subtree_control", "cpu memory pids\n");
    put(root, "/sys/fs/cgroup/user.slice/cgroup.subtree_control", "memory pids\n");
    put(root, "/sys/fs/cgroup/user.slice/user-0.slice/cgroup.subtree_control", "pids\n");
    put(root, "/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope/cgroup.procs", "");
}

fn the_group(paths: &Paths) -> PathBuf {
    paths.memory.as_ref().expect("a group").path().to_owned()
}

/// Creates the group's file `cgroup.kill`, through which the kernel would kill the whole group.
/// Without this file, dropping the [`MemoryLimit`] would kill the processes whose ids are in
/// `cgroup.procs`. Here these would be real processes.
fn can_be_killed(root: &Path, group: &Path) {
    put(root, &group.join("cgroup.kill").display().to_string(), "0");
}

#[test]
fn a_group_in_cgroup_v2() {
    say("memory limit: ON SAMPLES: cgroup v2");
    let root = tempfile::tempdir().expect("a directory");
    let (root, system) = (root.path(), System::at(root.path()));
    play_v2(root);
    let mut limit = limit(root);
    assert_eq!((limit.kind(), limit.bytes()), ("cgroup v2", Some(LIMIT)));
    assert!(limit.describe().contains("without swap"), "{}", limit.describe());
    let paths = limit.paths(1);
    let group = the_group(&paths);
    can_be_killed(root, &group);
    assert_eq!(group.parent(), Some(Path::new("/sys/fs/cgroup/user.slice")));
    assert_eq!(paths.memory, Some(MemoryGroup::V2(group.clone())));
    assert_eq!(paths.pressure, Some(group.clone()));
    assert_eq!(system.number(group.join("memory.max")), Some(LIMIT));
    assert_eq!(system.number(group.join("memory.swap.max")), Some(0));
    limit.set(LIMIT / 2).expect("another limit");
    assert_eq!(system.number(group.join("memory.max")), Some(LIMIT / 2));

    let mut command = limit.command("sh");
    let output = command.args(["-c", "echo $$"]).output().expect("a child");
    let number = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(system.read(group.join("cgroup.procs")), Some(number), "it entered the group");
    drop(limit);
    assert_eq!(read(root.join(group.strip_prefix("/").expect("a path")).join("cgroup.kill")), "1");
}

#[test]
fn the_cgroup_v2_controller_is_enabled_in_every_ancestor_first() {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    play_v2(root);
    for group in ["", "user.slice/"] {
        put(root, &format!("/sys/fs/cgroup/{group}cgroup.subtree_control"), "pids\n");
    }
    let limit = limit(root);
    let group = the_group(&limit.paths(1));
    can_be_killed(root, &group);
    assert_eq!(group.parent(), Some(Path::new("/sys/fs/cgroup")));
    assert_eq!(read(root.join("sys/fs/cgroup/cgroup.subtree_control")), "+memory");
}

#[test]
fn a_limit_in_cgroup_v1_is_not_escaped() {
    say("memory limit: ON SAMPLES: cgroup v1 inside another limit, and without swap");
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    let memory = "/sys/fs/cgroup/memory";
    put(
        root,
        "/proc/self/mountinfo",
        &format!("35 31 0:32 / {memory} rw - cgroup cgroup rw,memory\n"),
    );
    put(root, "/proc/self/cgroup", "4:memory:/box\n0::/\n");
    put(root, "/proc/meminfo", "MemTotal: 10 kB\nSwapTotal: 5 kB\n");
    let stat = |limit: u64| format!("cache 0\nhierarchical_memory_limit {limit}\n");
    put(root, &format!("{memory}/box/memory.stat"), &stat(9_223_372_036_854_771_712));
    let at_the_top = limit(root);
    let group = the_group(&at_the_top.paths(1));
    can_be_killed(root, &group);
    assert_eq!(group.parent(), Some(Path::new(memory)));
    assert_eq!(at_the_top.kind(), "cgroup v1");
    assert!(at_the_top.describe().contains("swap not included"), "{}", at_the_top.describe());
    assert!(at_the_top.describe().contains("whole machine"), "there is no unified hierarchy");
    assert!(!System::at(root).has(group.join("memory.memsw.limit_in_bytes")));

    put(root, &format!("{memory}/box/memory.stat"), &stat(LIMIT * 2));
    put(root, &format!("{memory}/box/memory.memsw.limit_in_bytes"), "1");
    let inside = limit(root);
    let group = the_group(&inside.paths(1));
    can_be_killed(root, &group);
    assert_eq!(group.parent(), Some(Path::new(&format!("{memory}/box"))));
    assert!(inside.describe().contains("swap included"), "{}", inside.describe());
    let with_swap = System::at(root).number(group.join("memory.memsw.limit_in_bytes"));
    assert_eq!(with_swap, Some(LIMIT));
}

/// Creates an executable that logs its arguments, and then executes the command after `--`, if
/// there is one.
fn play_program(root: &Path, name: &str) {
    let log = root.join(format!("{name}.log"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>'{}'\nwhile [ $# -gt 0 ]; do\n  word=$1; shift\n  \
         [ \"$word\" = -- ] && exec \"$@\"\ndone\nexit 0\n",
        log.display()
    );
    put(root, &format!("/bin/{name}"), &script);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(root.join("bin").join(name), executable).expect("an executable file");
}

#[test]
fn a_scope_of_systemd() {
    say("memory limit: ON SAMPLES: systemd-run");
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    play_v2(root);
    put(root, "/sys/fs/cgroup/cgroup.controllers", "cpu pids\n");
    play_program(root, "systemd-run");
    play_program(root, "systemctl");
    let mut limit = limit(root);
    assert_eq!((limit.kind(), limit.bytes()), ("systemd-run", Some(LIMIT)));
    let output = limit.command("echo").args(["a", "b"]).output().expect("a child");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a b\n");
    let log = read(root.join("systemd-run.log"));
    let last = log.lines().next_back().expect("a call");
    for part in ["--scope", "MemoryMax=1073741824", "MemorySwapMax=0", "-- echo a b"] {
        assert!(last.contains(part), "{last}");
    }
    let unit = last.split_once("--unit=").expect("a name").1;
    let unit = unit.split(' ').next().expect("a name");
    limit.set(LIMIT / 2).expect("another limit");
    let log = read(root.join("systemctl.log"));
    let set = format!("set-property --runtime {unit}.scope MemoryMax=536870912");
    assert!(log.contains(&set), "{log}");

    // Imitate a process 77 that runs in the scope.
    put(root, "/proc/77/cgroup", &format!("0::/system.slice/{unit}.scope\n"));
    let scope = format!("/sys/fs/cgroup/system.slice/{unit}.scope");
    put(root, &format!("{scope}/memory.current"), "0\n");
    put(root, &format!("{scope}/memory.pressure"), "");
    let paths = limit.paths(77);
    assert_eq!(paths.memory, Some(MemoryGroup::V2(scope.clone().into())));
    assert_eq!(paths.pressure, Some(scope.into()));
    drop(limit);
    let log = read(root.join("systemctl.log"));
    assert!(log.contains("kill --signal=KILL tailwater-limit-"), "{log}");
}

#[test]
fn a_machine_without_cgroups_has_no_limit() {
    say("memory limit: ON SAMPLES: none");
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    put(root, "/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let mut limit = limit(root);
    assert_eq!((limit.kind(), limit.bytes()), ("none", None));
    let text = limit.describe();
    assert!(text.starts_with("None: cgroup v1: no memory controller is mounted; cgroup v2: "));
    assert!(text.contains("systemd-run: ") && text.contains("whole machine"), "{text}");
    limit.set(5).expect("nothing to do");
    assert_eq!(limit.paths(1), Paths::default());
    assert!(limit.command("true").status().expect("a child").success());
}

#[test]
fn a_group_that_cannot_be_entered_is_not_used() {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    play_v2(root);
    // Put a file in place of a directory, so that no group can be created below it.
    std::fs::remove_dir_all(root.join("sys/fs/cgroup/user.slice")).expect("the slice");
    put(root, "/sys/fs/cgroup/user.slice", "no directory");
    put(root, "/sys/fs/cgroup/cgroup.subtree_control", "memory\n");
    put(root, "/proc/self/cgroup", "0::/user.slice\n");
    let at_the_top = limit(root);
    assert_eq!(the_group(&at_the_top.paths(1)).parent(), Some(Path::new("/sys/fs/cgroup")));
    can_be_killed(root, &the_group(&at_the_top.paths(1)));
    put(root, "/proc/self/mountinfo", "30 23 0:26 / /gone rw - cgroup2 cgroup2 rw\n");
    put(root, "/gone", "no directory");
    assert_eq!(limit(root).kind(), "none");
}

#[test]
fn the_multi_generational_lru_is_disabled_during_a_run() {
    say("memory limit: ON SAMPLES: the multi-generational LRU");
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    let setting = || read(root.join("sys/kernel/mm/lru_gen/enabled"));
    play_v2(root);
    put(root, "/sys/kernel/mm/lru_gen/enabled", "0x0007\n");
    let switched_off = limit(root);
    can_be_killed(root, &the_group(&switched_off.paths(1)));
    assert_eq!(setting(), "0");
    assert!(switched_off.describe().ends_with("is switched off during the runs."));
    drop(switched_off);
    assert_eq!(setting(), "0x0007");

    put(root, "/sys/kernel/mm/lru_gen/enabled", "0x0000\n");
    let off_before = limit(root);
    can_be_killed(root, &the_group(&off_before.paths(1)));
    assert!(off_before.describe().ends_with("LRU is off."));
    drop(off_before);
    assert_eq!(setting(), "0x0000\n");
}

#[test]
fn groups_of_dead_runs_are_removed_and_their_setting_restored() {
    let root = tempfile::tempdir().expect("a directory");
    let root = root.path();
    play_v2(root);
    put(root, "/sys/kernel/mm/lru_gen/enabled", "0x0000\n");
    put(root, "/proc/4/stat", "4 (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1234 0 0\n");
    let parent = root.join("sys/fs/cgroup/user.slice");
    let (dead, reused) = ("tailwater-limit-5-3-77-0-7", "tailwater-limit-5-4-1000-2-0");
    let (alive, foreign) = ("tailwater-limit-5-4-1234-2-0", "tailwater-limits");
    let elsewhere = "tailwater-limit-6-3-77-0-0";
    put(root, "/proc/self/ns/none", "");
    std::os::unix::fs::symlink("pid:[5]", root.join("proc/self/ns/pid")).expect("a link");
    for name in [dead, reused, alive, foreign, elsewhere] {
        std::fs::create_dir(parent.join(name)).expect("a group");
    }
    let limit = limit(root);
    can_be_killed(root, &the_group(&limit.paths(1)));
    assert!(!parent.join(dead).exists() && !parent.join(reused).exists());
    assert!(parent.join(alive).exists() && parent.join(foreign).exists());
    assert!(parent.join(elsewhere).exists(), "another namespace's cannot be judged");
    assert!(
        limit.describe().ends_with("is switched off during the runs."),
        "it was on before the dead run"
    );
    drop(limit);
    assert_eq!(read(root.join("sys/kernel/mm/lru_gen/enabled")), "0x0007");
}

#[test]
fn eviction_drops_the_machines_caches_if_permitted() {
    say("eviction: ON SAMPLES: the machine's caches; FOR REAL: advice");
    let root = tempfile::tempdir().expect("a directory");
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("below")).expect("a directory");
    std::fs::write(directory.path().join("below/file"), vec![1; 1 << 20]).expect("a file");
    put(root.path(), "/proc/sys/vm/drop_caches", "0\n");
    let evicted = evict(&System::at(root.path()), &[directory.path()]).expect("a file");
    assert!(evicted.machine);
    assert_eq!(read(root.path().join("proc/sys/vm/drop_caches")), "3");
    if is_memory(directory.path()) {
        say("LEFT OUT: eviction by advice: scratch files are in memory");
        return;
    }
    let advised = evict(&System::at("/no/such/root"), &[directory.path()]).expect("a file");
    assert!(!advised.machine);
    match advised.resident_pages {
        Some(pages) => assert!(pages < 256, "{advised:?}"),
        None => say("LEFT OUT: the pages left by advice: the kernel does not report them"),
    }
}
