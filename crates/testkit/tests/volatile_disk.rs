//! Tests of filesystems on a disk whose power is cut.
//!
//! The tests write files with `dd` and read them with `cat`, because the process that serves the
//! disk must not use the filesystem itself.
#![expect(clippy::disallowed_methods, reason = "accesses files that are not a database's")]

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tailwater_testkit::filesystem::say;
use tailwater_testkit::volatile_disk::{Shape, VolatileDisk};

const KINDS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// Creates a disk with a mounted filesystem. If that is impossible, prints what is skipped and why,
/// and returns `None`.
fn mounted(kind: &str, shape: Shape, seed: u64) -> Option<VolatileDisk> {
    let made = VolatileDisk::new(shape, seed).and_then(|mut disk| {
        disk.mount_as(kind)?;
        Ok(disk)
    });
    made.inspect_err(|reason| say(&format!("skipped: power cuts on {kind}: {reason}"))).ok()
}

/// Writes 64 KiB of the character `byte` to a file. If `sync` is true, then syncs the file. Returns
/// whether the write and the sync succeeded.
fn write(path: &Path, byte: char, sync: bool) -> bool {
    let sync = if sync { " conv=fsync" } else { "" };
    let command = format!(
        "head -c 65536 /dev/zero | tr '\\0' {byte} | dd of={} bs=65536 iflag=fullblock{sync}",
        path.display()
    );
    Command::new("sh").args(["-c", &command]).output().expect("a shell").status.success()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let output = Command::new("cat").arg(path).output().expect("cat");
    output.status.success().then_some(output.stdout)
}

#[test]
fn only_synced_files_are_certain_to_survive_a_power_cut() {
    for kind in KINDS {
        let mut gone = 0;
        for seed in 0..4 {
            let Some(mut disk) = mounted(kind, Shape::default(), seed) else { break };
            assert!(write(&disk.path().join("synced"), 's', true), "{kind}, seed {seed}");
            assert!(write(&disk.path().join("unsynced"), 'u', false), "{kind}, seed {seed}");
            disk.cut();
            assert!(disk.loss().is_some());
            assert!(!write(&disk.path().join("late"), 'l', true), "{kind}: synced without power");
            let path = disk.mount_again().unwrap_or_else(|error| panic!("{kind}, {seed}: {error}"));
            assert_eq!(read(&path.join("synced")), Some(vec![b's'; 65536]), "{kind}, seed {seed}");
            gone += u32::from(read(&path.join("unsynced")) != Some(vec![b'u'; 65536]));
            assert!(write(&path.join("later"), 'l', true), "{kind}: no power");
            if seed == 3 {
                assert!(gone > 0, "{kind}: nothing was ever lost");
            }
        }
    }
}

#[test]
fn an_unmounted_filesystem_is_found_as_it_was() {
    for kind in KINDS {
        let Some(mut disk) = mounted(kind, Shape::default(), 1) else { continue };
        assert!(write(&disk.path().join("unsynced"), 'u', false));
        let path = disk.mount_again().expect("the same filesystem");
        assert_eq!(read(&path.join("unsynced")), Some(vec![b'u'; 65536]), "{kind}");
    }
}

#[test]
fn a_slow_disk_is_slow_to_sync() {
    let delay = Duration::from_millis(50);
    let Some(disk) = mounted("ext4", Shape { flush_delay: delay, ..Shape::default() }, 1) else {
        return;
    };
    let begun = Instant::now();
    assert!(write(&disk.path().join("synced"), 's', true));
    // The disk guarantees only a minimum duration of flushes.
    assert!(begun.elapsed() >= delay);
}

#[test]
fn nothing_is_left_mounted_not_even_by_a_panic() {
    let Some(disk) = mounted("ext4", Shape::default(), 1) else { return };
    let directory = disk.path().parent().expect("the parent directory").display().to_string();
    let mounts = || std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let attached =
        || Command::new("losetup").args(["--list", "--noheadings"]).output().expect("losetup");
    let output = || String::from_utf8_lossy(&attached().stdout).into_owned();
    assert!(mounts().contains(&directory));
    assert!(output().contains(&directory));
    let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let disk = disk;
        assert!(write(&disk.path().join("unsynced"), 'u', false));
        // Unwinds like a panic, but prints no message.
        std::panic::resume_unwind(Box::new(disk.requests()));
    }));
    assert!(panicked.is_err());
    assert!(!mounts().contains(&directory), "{}", mounts());
    assert!(!output().contains(&directory), "{}", output());
    assert!(!Path::new(&directory).exists());
}
