//! Checks, at the kernel, in which mode segments are open (`/proc/self/fdinfo`), and which writes
//! to them are durable when they return. The latter is a flag of each write (`RWF_DSYNC`), which
//! only a trace of the system calls shows (`strace`).
#![expect(clippy::disallowed_methods, reason = "the kernel's reports are not a log's files")]

use std::fs;
use std::path::Path;
use std::process::Command;

use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, DirectIo, IoMode, Purpose, Storage};
use tailwater_log::{Durability, IoModeChoice, Log, LogOptions, PartialBlocks, TailMemory};
use tailwater_testkit::filesystem::say;

use crate::common::{batch, read_all, topic};

/// The flag of an open file in Linux that requests direct I/O.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: u32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: u32 = 0o40_000;
/// The bits of an open file's flags that say whether it is open for reading or for writing.
const O_ACCMODE: u32 = 0o3;

/// Environment variable with the task of the traced process: the durability of the topic, whether
/// the log makes every write durable, and the log's directory, separated by spaces.
const TRACED: &str = "TAILWATER_LOG_TRACED";
/// Number of batches that the traced process appends, one after the other.
const APPENDS: usize = 5;

fn options(mode: IoModeChoice) -> LogOptions {
    LogOptions::new()
        .with_append_io_mode(mode)
        .with_read_io_mode(mode)
        .with_tail_memory(TailMemory::Private)
}

/// Returns the filesystem of a directory if it supports direct I/O. Otherwise prints what is left
/// out.
fn filesystem_with_direct_io(directory: &Path, left_out: &str) -> Option<String> {
    let path = directory.join("asked");
    let storage = PosixStorage::new();
    drop(storage.create(&path, Create::New, IoMode::Buffered, Purpose::Metadata).expect("a file"));
    let found = storage.capabilities(&path).expect("capabilities");
    storage.remove(&path).expect("a removal");
    match found.direct_io {
        DirectIo::Aligned(_) if found.direct_write_fault.is_none() => Some(found.filesystem),
        other => {
            let filesystem = found.filesystem;
            say(&format!("LEFT OUT: {left_out}: direct I/O on {filesystem}: {other:?}"));
            None
        }
    }
}

/// Returns the flags of this process's descriptors of segments in a directory: those for writing,
/// and those for reading.
fn flags_of_segments(directory: &Path) -> [Vec<u32>; 2] {
    let mut found = [Vec::new(), Vec::new()];
    for entry in fs::read_dir("/proc/self/fd").expect("descriptors").flatten() {
        // Other tests may close their descriptors meanwhile, but none in this directory.
        let Ok(path) = fs::read_link(entry.path()) else { continue };
        let is_segment = path.extension().is_some_and(|it| it == "log");
        if !path.starts_with(directory) || !is_segment {
            continue;
        }
        let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
        let info = fs::read_to_string(info).expect("the descriptor's figures");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        let flags = u32::from_str_radix(flags.trim(), 8).expect("an octal number");
        found[usize::from(flags & O_ACCMODE == 0)].push(flags);
    }
    found
}

#[test]
fn the_kernel_has_segments_open_in_the_effective_mode() {
    let scratch = tempfile::tempdir().expect("a directory");
    let scratch = fs::canonicalize(scratch.path()).expect("a path").join("log");
    let parent = scratch.parent().expect("a parent");
    if filesystem_with_direct_io(parent, "the flags of open segments").is_none() {
        return;
    }
    for (mode, flag) in [(IoModeChoice::Direct, O_DIRECT), (IoModeChoice::Buffered, 0)] {
        let directory = scratch.with_extension(mode.name());
        let mut id = None;
        // The first process creates the segment, the second one continues it.
        for round in 0..2_u64 {
            let log = Log::open(&directory, &options(mode)).expect("the log opens");
            let id = *id.get_or_insert_with(|| {
                let stream = log.create_stream(None, "stream").expect("a stream");
                let options = topic(Durability::Disk, PartialBlocks::Pad);
                log.create_topic(stream, None, "t", &options, 1).expect("a topic")
            });
            let partition = log.partition(id.partition(0)).expect("a partition");
            let polled = read_all(&partition);
            assert_eq!(polled.len() as u64, round);
            let appended = partition.append(&batch(round..round + 1, 900)).expect("an append");
            appended.ticket.wait().expect("an acknowledgement");
            let [written, read] = flags_of_segments(&directory);
            assert!(
                !written.is_empty() && (round == 0 || !read.is_empty()),
                "{written:?} {read:?}"
            );
            for flags in written.iter().chain(&read) {
                assert_eq!(flags & O_DIRECT, flag, "{mode:?}, round {round}: {flags:o}");
            }
            log.close().expect("the log closes");
        }
    }
}

/// The entry point of the traced process. In the parent process, this test does nothing.
#[test]
fn traced_process() {
    let Ok(task) = std::env::var(TRACED) else { return };
    let mut words = task.splitn(3, ' ');
    let mut word = || words.next().expect("three words");
    let durability = match word() {
        "memory" => Durability::Memory,
        "disk" => Durability::Disk,
        other => panic!("no durability: {other}"),
    };
    let options = options(IoModeChoice::Direct).with_syncs_appends(word() == "true");
    let log = Log::open(word(), &options).expect("the log opens");
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic(durability, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(id.partition(0)).expect("a partition");
    for number in 0..APPENDS as u64 {
        let appended = partition.append(&batch(number..number + 1, 900)).expect("an append");
        appended.ticket.wait().expect("an acknowledgement");
        partition.flush(false).wait().expect("a flush");
    }
    log.close().expect("the log closes");
}

/// Runs a traced process, and returns the lines of its trace that concern segments.
fn trace(directory: &Path, durability: &str, syncs_appends: bool) -> Vec<String> {
    let output = directory.with_extension("trace");
    let program = std::env::current_exe().expect("this program");
    let task = format!("{durability} {syncs_appends} {}", directory.display());
    let traced = Command::new("strace")
        .args(["-f", "-y", "-qq", "-s", "0", "-e", "trace=?open,openat,pwritev2", "-o"])
        .arg(&output)
        .arg(program)
        .args(["--exact", "kernel_modes::traced_process"])
        .env(TRACED, task)
        .output()
        .expect("strace");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stdout));
    let text = fs::read(&output).expect("a trace");
    let lines = String::from_utf8_lossy(&text).into_owned();
    lines.lines().filter(|line| line.contains(".log")).map(str::to_owned).collect()
}

#[test]
fn the_kernel_is_asked_for_direct_and_durable_writes() {
    const LEFT_OUT: &str = "the flags of writes";
    let tried = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    let refusal = match &tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(refusal) = refusal {
        return say(&format!("LEFT OUT: {LEFT_OUT}: strace: {}", refusal.trim()));
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let Some(filesystem) = filesystem_with_direct_io(scratch.path(), LEFT_OUT) else { return };
    if !["ext4", "xfs", "btrfs", "f2fs"].contains(&&*filesystem) {
        // There, a sync follows the write instead.
        return say(&format!("LEFT OUT: {LEFT_OUT}: durable writes on {filesystem}"));
    }
    for (durability, syncs_appends, is_durable) in
        [("disk", false, true), ("memory", true, true), ("memory", false, false)]
    {
        let directory = scratch.path().join(format!("{durability}-{syncs_appends}"));
        let lines = trace(&directory, durability, syncs_appends);
        let all = lines.join("\n");
        let opened = lines.iter().filter(|line| line.contains(" open"));
        let mut opened = opened.peekable();
        assert!(opened.peek().is_some(), "no segment was opened:\n{all}");
        for line in opened {
            assert!(line.contains("O_DIRECT"), "{line}");
        }
        // Space is filled with zeros by other calls, which a sync follows.
        let written = lines.iter().filter(|line| line.contains("pwritev2("));
        let flags: Vec<bool> = written.map(|line| line.contains("RWF_DSYNC")).collect();
        assert!(flags.len() >= APPENDS, "{durability} {syncs_appends}:\n{all}");
        assert!(
            flags.iter().all(|flag| *flag == is_durable),
            "{durability} {syncs_appends}:\n{all}"
        );
    }
}
