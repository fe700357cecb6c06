//! Tests that read the real files of this machine's kernel.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tailwater_io::kernel::{Device, Environment, RunQueue, Sampler, Scope, System, Target};
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::filesystem::{Mounted, say};

#[test]
fn the_environment_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let environment = Environment::of_directory(&System::default(), directory.path());
    for (name, value) in environment.named() {
        say(&format!("environment: {name} {value}"));
    }
    assert!(environment.kernel.starts_with(|c: char| c.is_ascii_digit()));
    assert!(environment.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    let ticks = environment.ticks_per_second.expect("a clock");
    assert!((24..=10_000).contains(&ticks), "{ticks}");
    assert!(environment.filesystem.is_some());
}

/// A mounted filesystem, which is unmounted when this is dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(arguments: &[&str], target: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(arguments).arg(target).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(target.to_owned()));
        }
        say(&format!("LEFT OUT: the device behind a directory: no mount {arguments:?}"));
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn bind_and_overlay_mounts_lead_to_the_device_below() {
    let what = "the device behind a bind and an overlay mount";
    let Some(mounted) = Mounted::new("ext4", 64 << 20, what) else { return };
    let (storage, system) = (PosixStorage::new(), System::default());
    let device = Device::of_directory(&system, &mounted.path()).expect("a loop device");
    let elsewhere = tempfile::tempdir().expect("a directory");
    for name in ["upper", "work"] {
        storage.create_directory(&mounted.path().join(name)).expect("a directory");
    }
    let upper = mounted.path().join("upper").display().to_string();
    let work = mounted.path().join("work").display().to_string();
    let options = format!("lowerdir=/usr/bin,upperdir={upper},workdir={work}");
    for arguments in [["--bind", &upper].as_slice(), &["-t", "overlay", "-o", &options, "none"]] {
        let Some(mount) = Mount::new(arguments, elsewhere.path()) else { continue };
        assert_eq!(
            Device::of_directory(&system, &mount.0).as_ref(),
            Some(&device),
            "{arguments:?}"
        );
    }
}

#[test]
fn loop_devices_are_devices() {
    let system = System::default();
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(mounted) = Mounted::new(kind, 400 << 20, "the device behind a directory") else {
            continue;
        };
        let device = Device::of_directory(&system, &mounted.path()).expect("a loop device");
        assert!(device.name.starts_with("loop"), "{kind}: {device:?}");
        let backing = device.backing_file.as_ref().expect("a file");
        assert!(backing.ends_with("image"), "{kind}: {backing:?}");
        let environment = Environment::of_directory(&system, &mounted.path());
        let filesystem = environment.filesystem.expect("a filesystem");
        let journal = match kind {
            "ext4" => "ordered",
            "xfs" => "metadata log",
            _ => "copy on write",
        };
        assert_eq!(
            (filesystem.kind.as_str(), filesystem.journal.as_deref()),
            (kind, Some(journal))
        );

        let storage = PosixStorage::new();
        let target = Target::new(&system, &mounted.path());
        let sampler = Sampler::start(target, Duration::from_millis(20)).expect("a thread");
        let path = mounted.path().join("file");
        let purpose = Purpose::FlushWrite;
        let mut file = storage.create(&path, Create::New, IoMode::Buffered, purpose).expect("it");
        file.write_all_at(&vec![7; 8 << 20], 0, purpose).expect("room");
        file.sync_all(purpose).expect("a sync");
        let figures = sampler.stop().expect("figures").figures;
        let written = figures.device_write_bytes_per_second.expect("a device") * figures.seconds;
        assert!(written >= f64::from(8 << 20), "{kind}: {written} bytes reached the device");
        assert!(figures.w_await_ms.is_some() && figures.utilisation.is_some(), "{kind}");
        if kind == "ext4" {
            assert!(figures.device_flushes_per_second.is_none_or(|flushes| flushes > 0.0));
        }
        assert!(figures.dirtied_pages_per_second.is_some_and(|pages| pages > 0.0), "{kind}");
    }
    assert_eq!(Device::of_directory(&system, Path::new("/proc")), None);
    assert_eq!(Device::of_directory(&system, Path::new("/no/such/directory")), None);
}

#[test]
fn reads_and_run_time_of_a_process_are_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let storage = PosixStorage::new();
    let path = directory.path().join("file");
    let (direct, purpose) = (IoMode::Direct, Purpose::UserRead);
    let Ok(mut file) = storage.create(&path, Create::New, direct, purpose) else {
        say("LEFT OUT: what a process reads: no direct I/O in the directory for scratch files");
        return;
    };
    let mut buffer = tailwater_io::buffer::AlignedBuffer::with_capacity(1 << 20);
    buffer.set_length(1 << 20);
    file.write_all_at(&buffer, 0, purpose).expect("room");
    let before = RunQueue::of_this_thread();
    let target = Target::new(&System::default(), directory.path()).process(std::process::id());
    let sampler = Sampler::start(target, Duration::from_millis(100)).expect("a thread");
    let reader = storage.open(&path, direct, purpose).expect("it");
    for _ in 0..32 {
        reader.read_full_at(&mut buffer, 0, purpose).expect("bytes");
    }
    let figures = sampler.stop().expect("figures").figures;
    if figures.missed_of == Some(Scope::Process) && storage.resident_pages(&path).is_ok() {
        let pages = figures.missed_pages_per_second.expect("pages") * figures.seconds;
        // 32 reads of 1 MiB are 8192 pages. On tmpfs there is no device to read from, so the figure
        // is 0.
        assert!(pages == 0.0 || pages >= 8191.0, "{pages}");
    } else {
        say("LEFT OUT: the pages that a process reads: the kernel does not report them");
    }
    if let Some(before) = before {
        let came = RunQueue::of_this_thread().expect("it was reported before").since(before);
        assert!(came.running_ns > 0);
        assert!(figures.running_us_per_second.is_some_and(|time| time > 0.0));
    } else {
        say("LEFT OUT: run time: the kernel does not report it");
    }
}
