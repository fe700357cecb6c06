//! Finding the device behind a directory. A directory tree imitates the kernel's files, so that
//! devices can be tested that this machine does not have.

use std::os::unix::fs::symlink;
use std::path::Path;

use tailwater_io::kernel::{Device, Environment, IoUring, System};

use crate::put;

/// Writes the sysfs files of a partition and of its device below `root`.
fn play_partition(root: &Path) {
    let whole = "/sys/devices/pci/nvme0n1";
    for (file, text) in [
        ("dev", "259:0"),
        ("size", "1000"),
        ("queue/rotational", "0"),
        ("queue/fua", "1"),
        ("queue/write_cache", "write through"),
        ("queue/read_ahead_kb", "128"),
        ("queue/max_sectors_kb", "1280"),
        ("queue/scheduler", "[none] mq-deadline"),
        ("nvme0n1p2/partition", "2"),
        ("nvme0n1p2/dev", "259:2"),
    ] {
        put(root, &format!("{whole}/{file}"), &format!("{text}\n"));
    }
    put(root, "/sys/dev/block/none", "");
    let devices = root.join("sys/devices/pci/nvme0n1");
    symlink(&devices, root.join("sys/dev/block/259:0")).expect("a link");
    symlink(devices.join("nvme0n1p2"), root.join("sys/dev/block/259:2")).expect("a link");
    put(root, "/sys/class/block/none", "");
    symlink(devices.join("nvme0n1p2"), root.join("sys/class/block/nvme0n1p2")).expect("a link");
}

#[test]
fn a_partition_leads_to_its_disk() {
    let root = tempfile::tempdir().expect("a directory");
    play_partition(root.path());
    let system = System::at(root.path());
    let device = Device::of_number(&system, (259, 2)).expect("a device");
    assert_eq!((device.name.as_str(), device.number), ("nvme0n1", (259, 0)));
    assert_eq!(device.partition.as_deref(), Some("nvme0n1p2"));
    assert_eq!((device.is_rotational, device.has_fua), (Some(false), Some(true)));
    assert_eq!(device.has_volatile_cache, Some(false));
    assert_eq!((device.read_ahead_kib, device.max_sectors_kib), (Some(128), Some(1280)));
    assert_eq!((device.scheduler.as_deref(), device.size_bytes), (Some("none"), Some(512_000)));
    assert_eq!((device.queue_requests, &device.backing_file), (None, &None));
    let whole = Device { partition: None, ..device };
    assert_eq!(Device::of_number(&system, (259, 0)), Some(whole));
    assert_eq!(Device::of_number(&system, (8, 0)), None);
}

#[test]
fn filesystems_with_numbers_of_their_own_name_their_device() {
    let root = tempfile::tempdir().expect("a directory");
    play_partition(root.path());
    let system = System::at(root.path());
    let of = |kind_source_options: &str| {
        put(
            root.path(),
            "/proc/self/mountinfo",
            &format!("1 0 0:99 / / rw - {kind_source_options}\n"),
        );
        Device::of_directory(&system, root.path()).map(|device| device.filesystem_name().to_owned())
    };
    assert_eq!(of("btrfs /dev/nvme0n1p2 rw").as_deref(), Some("nvme0n1p2"));
    // The names that the device mapper and udev create are symbolic links to the device.
    put(root.path(), "/dev/nvme0n1p2", "");
    put(root.path(), "/dev/mapper/none", "");
    symlink("../nvme0n1p2", root.path().join("dev/mapper/data")).expect("a link");
    assert_eq!(of("btrfs /dev/mapper/data rw").as_deref(), Some("nvme0n1p2"));
    assert_eq!(of("btrfs /dev/gone rw"), None);
    assert_eq!(of("tmpfs tmpfs rw"), None);
    assert_eq!(of("nfs4 server:/export rw"), None);
    assert_eq!(of("overlay overlay rw,lowerdir=/a,upperdir=/no/such/directory,workdir=/b"), None);
    assert_eq!(of("overlay overlay rw,lowerdir=/a"), None);
    let upper = root.path().display().to_string();
    assert_eq!(
        of(&format!("overlay overlay rw,upperdir={upper}")),
        None,
        "the layers form a cycle"
    );
}

#[test]
fn the_environment_of_another_machine() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path();
    play_partition(path);
    for (file, text) in [
        ("/proc/self/mountinfo", "1 0 0:99 / / rw - btrfs /dev/nvme0n1p2 rw,ssd\n"),
        ("/proc/meminfo", "MemTotal:       24684092 kB\nSwapTotal:      0 kB\n"),
        ("/proc/self/status", "Name:\tx\nSeccomp:\t2\n"),
        ("/proc/sys/kernel/io_uring_disabled", "0\n"),
        ("/sys/kernel/debug/sched/preempt", "none (voluntary) full lazy\n"),
        ("/sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
        ("/sys/kernel/mm/damon/admin/kdamonds/0/state", "off\n"),
        ("/sys/module/damon_reclaim/parameters/enabled", "Y\n"),
    ] {
        put(path, file, text);
    }
    let environment = Environment::of_directory(&System::at(path), path);
    let filesystem = environment.filesystem.as_ref().expect("a filesystem");
    assert_eq!((filesystem.kind.as_str(), filesystem.options.as_str()), ("btrfs", "rw,rw,ssd"));
    assert_eq!(filesystem.journal.as_deref(), Some("copy on write"));
    assert_eq!(environment.preemption.as_deref(), Some("voluntary"));
    assert_eq!(environment.multi_generational_lru, Some(7));
    assert_eq!(environment.damon, Some(vec!["damon_reclaim".to_owned()]));
    assert_eq!(environment.io_uring, Some(IoUring::Filtered));
    assert_eq!(environment.memory_bytes, Some(24_684_092 << 10));
    let named = environment.named();
    let of = |name: &str| &named.iter().find(|(found, _)| *found == name).expect("a figure").1;
    assert_eq!(
        (of("device").as_str(), of("multi_generational_lru").as_str()),
        ("nvme0n1p2", "0x0007")
    );
    assert_eq!(of("queue_requests"), "unknown");

    put(path, "/proc/self/mountinfo", "1 0 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n");
    let journal = |task: &str, options: &str| {
        let mount = format!("1 0 0:99 / / rw - ext4 /dev/nvme0n1p2 {options}\n");
        put(path, "/proc/self/mountinfo", &mount);
        put(path, "/sys/fs/ext4/nvme0n1p2/journal_task", task);
        Environment::of_directory(&System::at(path), path).filesystem.and_then(|it| it.journal)
    };
    assert_eq!(journal("<none>\n", "rw").as_deref(), Some("none"));
    assert_eq!(journal("1754\n", "rw").as_deref(), Some("ordered"));
    assert_eq!(journal("1754\n", "rw,data=writeback").as_deref(), Some("writeback"));
    assert_eq!(journal("", "rw"), None);
}
