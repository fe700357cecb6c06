//! Tests that an interrupted program removes all cgroups and files that it created, and that a
//! later program removes what killed programs left behind.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tailwater_latency::memory_limit::MemoryLimit;
use tailwater_latency::memory_limit::interrupt::{kill_on_interrupt, on_interrupt};
use tailwater_testkit::filesystem::say;

/// Environment variable with the path of the scratch file. It is set only in the process that the
/// tests interrupt.
const SCRATCH: &str = "TAILWATER_INTERRUPTED_SCRATCH";

/// Not a real test, but the process that the tests below start and interrupt. It creates a limit, a
/// child and a scratch file, prints the child's id and group, and waits.
#[test]
fn the_process_that_is_interrupted() {
    let Some(scratch) = std::env::var_os(SCRATCH).map(PathBuf::from) else { return };
    let limit = MemoryLimit::new(64 << 20).expect("a limit, or none");
    std::fs::write(&scratch, "scratch").expect("a file");
    let _scratch = on_interrupt(move || {
        let _ = std::fs::remove_file(&scratch);
    });
    let mut child = limit.command("sleep").arg("1000").spawn().expect("a child");
    let _child = kill_on_interrupt(&child);
    let group = limit.paths(child.id()).memory.map(|group| group.path().display().to_string());
    // Begin with a line feed, because the test harness has already printed the beginning of a line.
    println!("\nTHERE {} {}", child.id(), group.unwrap_or_default());
    let _ = child.wait();
    // The interrupt handler has killed the child, and now ends this process. Wait here until it
    // does.
    drop(limit);
    std::thread::sleep(Duration::from_secs(1000));
}

/// A process started to be interrupted, the id of its child, and its cgroup if it has one.
struct Waiting {
    process: Child,
    child: u32,
    group: Option<PathBuf>,
}

impl Waiting {
    fn new(scratch: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "interrupted::the_process_that_is_interrupted", "--nocapture"])
            .env(SCRATCH, scratch)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(process.stdout.take().expect("standard output")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        let line = lines
            .find(|line| line.starts_with("THERE "))
            .expect("the process reports that it waits");
        let mut words = line.split(' ').skip(1);
        let child = words.next().expect("a number").parse().expect("a number");
        let group = words.next().filter(|group| !group.is_empty()).map(PathBuf::from);
        assert!(scratch.exists());
        assert!(group.as_ref().is_none_or(|group| group.exists()));
        Self { process, child, group }
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        let process = Pid::from_raw(self.process.id() as i32).expect("a number");
        kill_process(process, signal).expect("a running process");
        self.process.wait().expect("the process ends")
    }

    fn child_is_gone(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child));
        // A zombie counts as ended: it only waits to be reaped.
        stat.map_or(true, |stat| stat.contains(") Z "))
    }
}

#[test]
fn an_interruption_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let directory = tempfile::tempdir().expect("a directory");
        let scratch = directory.path().join("scratch");
        let mut waiting = Waiting::new(&scratch);
        let status = waiting.signal(signal);
        assert_eq!(status.code(), Some(130), "{status:?}");
        assert!(!scratch.exists(), "the scratch file is left");
        assert!(waiting.group.as_ref().is_none_or(|group| !group.exists()), "the group is left");
        while !waiting.child_is_gone() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn the_next_run_clears_up_after_one_that_was_killed() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut waiting = Waiting::new(&directory.path().join("scratch"));
    let status = waiting.signal(Signal::KILL);
    assert_eq!(status.code(), None);
    let Some(group) = waiting.group.clone() else {
        say("LEFT OUT: groups of a run that was killed: this machine has no limit");
        let child = Pid::from_raw(waiting.child as i32).expect("a number");
        kill_process(child, Signal::KILL).expect("a running process");
        return;
    };
    drop(MemoryLimit::new(64 << 20).expect("a limit"));
    assert!(!group.exists(), "{group:?} is left");
    while !waiting.child_is_gone() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
