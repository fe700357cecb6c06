//! Tests of the kind of memory limit that this machine supports. They use the real kernel, not
//! files that imitate it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tailwater_io::kernel::{MemoryGroup, Sampler, Scope, System};
use tailwater_latency::memory_limit::{MemoryLimit, Paths, evict};
use tailwater_testkit::filesystem::say;

use crate::is_memory;

const MIB: u64 = 1 << 20;
const FILE_MIB: u64 = 300;
const LIMIT_MIB: u64 = 64;

/// Creates a file of `FILE_MIB` MiB and evicts it from the page cache. Returns its path.
fn file_out_of_memory(directory: &Path) -> std::path::PathBuf {
    let path = directory.join("file");
    let mut file = File::create(&path).expect("a file");
    let chunk = vec![7; MIB as usize];
    for _ in 0..FILE_MIB {
        file.write_all(&chunk).expect("room");
    }
    // Below `/no/such/root` there is no `drop_caches`, so `evict` drops only the pages of the files
    // in `directory`. Dropping the whole machine's page cache would slow other programs.
    let evicted = evict(&System::at("/no/such/root"), &[directory]).expect("a file");
    assert!(!evicted.machine);
    // A few pages may remain in the page cache, for example because another process reads the file.
    match evicted.resident_pages {
        Some(pages) => assert!(pages < 1000, "{evicted:?}"),
        None => say("LEFT OUT: the pages left by an eviction: the kernel does not report them"),
    }
    path
}

#[test]
fn a_child_reads_more_than_its_limit() {
    let mut limit = MemoryLimit::new(LIMIT_MIB * MIB).expect("a limit, or none");
    say(&format!("memory limit: FOR REAL: {}: {}", limit.kind(), limit.describe()));
    let directory = tempfile::tempdir().expect("a directory");
    if is_memory(directory.path()) {
        say("LEFT OUT: what a limit does to the page cache: scratch files are in memory");
        return;
    }
    let path = file_out_of_memory(directory.path());
    let mut command = limit.command("cat");
    let mut child = command.args([&path, &path]).stdout(Stdio::null()).spawn().expect("a child");
    let target = limit.target(directory.path(), child.id());
    let sampler = Sampler::start(target, Duration::from_millis(10)).expect("a thread");
    assert!(child.wait().expect("the process ends").success());
    let figures = sampler.stop().expect("figures").figures;
    for (name, value) in figures.named() {
        say(&format!("figures: {name} {value:?}"));
    }
    if System::default().has("/proc/self/io") {
        assert_eq!(figures.missed_of, Some(Scope::Process));
        assert!(figures.missed_pages_per_second.is_some_and(|pages| pages > 0.0), "{figures:?}");
    } else {
        say("LEFT OUT: the pages that a child reads: there is no /proc/self/io");
    }
    let paths = limit.paths(child.id());
    if limit.bytes().is_none() || paths.memory.is_none() {
        say("LEFT OUT: what a limit does to the page cache: this machine has none");
        return;
    }
    assert_eq!(figures.page_cache_of, Some(Scope::Group));
    let cached = figures.cached_pages.expect("a level");
    assert!(cached <= (LIMIT_MIB * MIB / 4096) as f64, "{cached} pages");
    let refaulted = figures.refaulted_pages_per_second.expect("a rate") * figures.seconds;
    assert!(refaulted > 1000.0, "{refaulted} pages of 76,800 were read again");
    if limit.kind() == "cgroup v2" {
        assert!(figures.limit_hits_per_second.is_some_and(|hits| hits > 0.0), "{figures:?}");
    }
    if paths.pressure.is_some() {
        assert_eq!(figures.stalls_of, Some(Scope::Group));
        assert!(figures.memory_stall_us_per_second.is_some_and(|stall| stall > 0.0), "{figures:?}");
    } else {
        say("LEFT OUT: stalls of a child on memory: this kernel does not report pressure");
    }

    let group = paths.memory.expect("a group").path().to_owned();
    let file = match limit.kind() {
        "cgroup v1" => "memory.limit_in_bytes",
        _ => "memory.max",
    };
    for mib in [LIMIT_MIB / 2, LIMIT_MIB * 2] {
        limit.set(mib * MIB).expect("another limit");
        let system = System::default();
        assert_eq!(system.number(group.join(file)), Some(mib * MIB));
    }
    drop(limit);
    assert!(!group.exists(), "{group:?} is left");
}

#[test]
fn dropping_the_limit_ends_its_processes() {
    let limit = MemoryLimit::new(LIMIT_MIB * MIB).expect("a limit, or none");
    if limit.bytes().is_none() {
        say("LEFT OUT: what ends with a limit: this machine has none");
        return;
    }
    let mut child = limit.command("sleep").arg("1000").spawn().expect("a child");
    // The child enters its group shortly after it has been spawned. Wait for that.
    let paths = limit.paths(child.id());
    while Paths::of_process(&System::default(), child.id()).memory != paths.memory {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(limit);
    assert!(!child.wait().expect("the process ends").success());
    let left = [paths.memory.map(|group| group.path().to_owned()), paths.pressure];
    assert!(left.iter().flatten().all(|path| !path.exists()), "{left:?}");
}

#[test]
fn a_child_has_arguments_environment_and_code_of_its_own() {
    let limit = MemoryLimit::new(LIMIT_MIB * MIB).expect("a limit, or none");
    let mut command = limit.command("sh");
    command.args([
        "-c",
        "printf '%s|%s|%s' \"$1\" \"$2\" \"$WORD\"; exit 3",
        "name",
        "a b",
        "$HOME",
    ]);
    let output = command.env("WORD", "it's").output().expect("a child");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a b|$HOME|it's");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_process_has_groups_of_its_own() {
    let paths = Paths::of_process(&System::default(), std::process::id());
    say(&format!("memory limit: the groups of this process: {paths:?}"));
    if let Some(MemoryGroup::V1(path) | MemoryGroup::V2(path)) = paths.memory {
        assert!(path.join("cgroup.procs").exists());
    } else {
        say("LEFT OUT: the group of this process: it is in none");
    }
}
