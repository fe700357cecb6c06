//! Checks the figures computed from two snapshots of the kernel's counters. A directory tree
//! imitates the kernel's files.

use std::path::Path;
use std::time::Duration;

use tailwater_io::kernel::{MemoryGroup, Sampler, Scope, Snapshot, System, Target};

use crate::put;

/// One second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Writes the kernel's files of a machine with the device 259:0 below `root`. Every counter is
/// proportional to `n`, so a second call with a larger `n` advances the counters.
fn play(root: &Path, n: u64) {
    let vmstat = format!(
        "nr_file_pages 9000\nnr_dirty {}\nnr_writeback 0\nnr_active_file 1\nnr_inactive_file 2\n\
         nr_dirtied {}\nnr_written {}\nworkingset_refault_file {}\nallocstall_normal 0\n",
        100 * n,
        1000 * n,
        500 * n,
        77 * n
    );
    put(root, "/proc/vmstat", &vmstat);
    let disk = format!(
        "259 0 nvme0n1 {} 0 {} {} {} 0 {} {} 0 {} {} 0 0 0 0 {} {}\n",
        10 * n,
        160 * n,
        20 * n,
        40 * n,
        320 * n,
        200 * n,
        500 * n,
        3000 * n,
        5 * n,
        25 * n
    );
    put(root, "/proc/diskstats", &disk);
    let pressure = format!("some avg10=0 total={}\nfull avg10=0 total={}\n", 400 * n, 100 * n);
    put(root, "/proc/pressure/memory", &pressure);
    put(root, "/proc/pressure/io", &pressure);
}

/// Returns a target whose directory is on the device 259:0.
fn target(root: &Path) -> Target {
    let status = rustix::fs::stat(root).expect("a directory");
    let (major, minor) = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
    put(root, "/proc/self/mountinfo", &format!("1 0 {major}:{minor} / / rw - ext4 /dev/x rw\n"));
    put(root, "/sys/devices/nvme0n1/dev", "259:0\n");
    put(root, "/sys/devices/nvme0n1/part/partition", "1\n");
    let links = root.join("sys/dev/block");
    put(root, "/sys/dev/block/none", "");
    let link = links.join(format!("{major}:{minor}"));
    std::os::unix::fs::symlink(root.join("sys/devices/nvme0n1/part"), link).expect("a link");
    Target::new(&System::at(root), root)
}

fn take(target: &Target, at_ns: u64) -> Snapshot {
    Snapshot { at_ns, ..Snapshot::take(target) }
}

#[test]
fn rates_are_per_second_and_levels_are_means() {
    let root = tempfile::tempdir().expect("a directory");
    let target = target(root.path());
    assert_eq!(target.device().map(|device| device.number), Some((259, 0)));
    play(root.path(), 1);
    let earlier = take(&target, 5 * SECOND);
    play(root.path(), 3);
    let figures = take(&target, 9 * SECOND).since(&earlier);

    assert_eq!(figures.seconds, 4.0);
    assert_eq!(figures.page_cache_of, Some(Scope::Machine));
    assert_eq!(figures.dirtied_pages_per_second, Some(500.0));
    assert_eq!(figures.written_pages_per_second, Some(250.0));
    assert_eq!(figures.refaulted_pages_per_second, Some(38.5));
    assert_eq!(figures.dirty_pages, Some(200.0));
    assert_eq!(figures.cached_pages, Some(9000.0));
    assert_eq!(figures.memory_stall_us_per_second, Some(200.0));
    assert_eq!(figures.memory_full_stall_us_per_second, Some(50.0));
    assert_eq!(
        (figures.stalls_of, figures.io_stall_us_per_second),
        (Some(Scope::Machine), Some(200.0))
    );
    assert_eq!((figures.r_await_ms, figures.w_await_ms), (Some(2.0), Some(5.0)));
    assert_eq!(figures.flush_await_ms, Some(5.0));
    assert_eq!((figures.queue_depth, figures.utilisation), (Some(1.5), Some(0.25)));
    assert_eq!(figures.device_read_bytes_per_second, Some(320.0 * 512.0 / 4.0));
    assert_eq!(figures.missed_of, Some(Scope::Machine));
    assert_eq!(figures.missed_pages_per_second, Some(10.0));
    assert_eq!(figures.without_direct_reads(20 * 4096).missed_pages_per_second, Some(5.0));
    assert_eq!(figures.without_direct_reads(1 << 40).missed_pages_per_second, Some(0.0));
    // These figures are absent, because the target has no group and no process, or because the
    // imitated kernel does not report them.
    for absent in ["activated", "limit_hits", "out_of_memory_kills", "run_delay", "direct_reclaim"]
    {
        let named = figures.named();
        let (name, value) =
            named.iter().find(|(name, _)| name.starts_with(absent)).expect("a figure");
        assert_eq!(*value, None, "{name}");
    }
}

#[test]
fn figures_that_the_kernel_does_not_report_are_absent() {
    let root = tempfile::tempdir().expect("a directory");
    let target = Target::new(&System::at(root.path()), root.path());
    let earlier = take(&target, 0);
    let figures = take(&target, SECOND).since(&earlier);
    assert!(figures.named().iter().all(|(_, value)| value.is_none()), "{figures:?}");

    // A device without I/O in the interval has no mean latency.
    let target = self::target(root.path());
    play(root.path(), 2);
    let earlier = take(&target, 0);
    let figures = take(&target, SECOND).since(&earlier);
    assert_eq!((figures.r_await_ms, figures.flush_await_ms), (None, None));
    assert_eq!((figures.device_reads_per_second, figures.utilisation), (Some(0.0), Some(0.0)));
    // The counters have gone backwards, as after the device was removed and added again. Figures
    // from them are absent.
    play(root.path(), 1);
    let figures = take(&target, 2 * SECOND).since(&earlier);
    assert_eq!((figures.device_reads_per_second, figures.r_await_ms), (None, None));
}

#[test]
fn figures_of_a_group_or_process_precede_those_of_the_machine() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path();
    let target = target(path).group(MemoryGroup::V2("/group".into())).process(42);
    let step = |n: u64| {
        play(path, n);
        let stat = format!("file 40960\nworkingset_refault_file {}\n", 30 * n);
        put(path, "/group/memory.stat", &stat);
        put(path, "/group/memory.events", &format!("low 0\nmax {}\noom_kill {}\n", 8 * n, n));
        put(path, "/group/memory.pressure", &format!("some avg10=0 total={}\n", 60 * n));
        put(path, "/proc/42/io", &format!("read_bytes: {}\n", 40960 * n));
        put(path, "/proc/42/task/42/schedstat", &format!("{} {} 1\n", 4000 * n, 6000 * n));
    };
    step(1);
    let earlier = take(&target, 0);
    step(2);
    // Thread 43 began after the first snapshot, so all of its time counts.
    put(path, "/proc/42/task/43/schedstat", "1000 2000 1\n");
    let figures = take(&target, SECOND).since(&earlier);
    assert_eq!(figures.page_cache_of, Some(Scope::Group));
    assert_eq!((figures.cached_pages, figures.dirty_pages), (Some(10.0), None));
    assert_eq!(figures.refaulted_pages_per_second, Some(30.0));
    assert_eq!(figures.dirtied_pages_per_second, Some(1000.0), "groups do not count those");
    assert_eq!(
        (figures.limit_hits_per_second, figures.out_of_memory_kills),
        (Some(8.0), Some(1.0))
    );
    assert_eq!(
        (figures.stalls_of, figures.memory_stall_us_per_second),
        (Some(Scope::Group), Some(60.0))
    );
    assert_eq!(figures.memory_full_stall_us_per_second, None, "this kernel does not report it");
    assert_eq!(
        (figures.missed_of, figures.missed_pages_per_second),
        (Some(Scope::Process), Some(10.0))
    );
    assert_eq!(figures.running_us_per_second, Some(5.0));
    assert_eq!(figures.run_delay_us_per_second, Some(8.0));
}

#[test]
fn the_sampler_keeps_the_last_figures_of_an_ended_process() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path();
    play(path, 1);
    put(path, "/proc/42/io", "read_bytes: 0\n");
    put(path, "/group/memory.stat", "file 40960\nworkingset_refault_file 5\n");
    let target = target(path).group(MemoryGroup::V2("/group".into())).process(42);
    let sampler = Sampler::start(target, Duration::from_millis(1)).expect("a thread");
    std::fs::remove_dir_all(path.join("proc/42")).expect("the process");
    std::fs::remove_dir_all(path.join("group")).expect("the group");
    let figures = sampler.stop().expect("figures").figures;
    assert!(figures.seconds > 0.0);
    assert_eq!(
        (figures.missed_of, figures.page_cache_of),
        (Some(Scope::Process), Some(Scope::Group))
    );
    assert_eq!(figures.missed_pages_per_second, Some(0.0));
    assert_eq!(figures.cached_pages, Some(10.0));
}

#[test]
fn the_sampler_has_figures_of_each_second() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path();
    play(path, 1);
    put(path, "/group/memory.stat", "file 40960\n");
    let target = target(path).group(MemoryGroup::V2("/group".into()));
    let sampler = Sampler::start(target, Duration::from_millis(10)).expect("a thread");
    std::thread::sleep(Duration::from_millis(1200));
    let sampled = sampler.stop().expect("figures");
    assert!(!sampled.seconds.is_empty());
    for second in &sampled.seconds {
        assert!((1.0..=sampled.figures.seconds).contains(&second.seconds), "{second:?}");
        assert_eq!(second.cached_pages, Some(10.0));
    }
}
