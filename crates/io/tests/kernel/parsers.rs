//! The parsers of the kernel's files, tested with the formats of older and newer kernels.

use std::path::Path;

use tailwater_io::kernel::disk::{DiskStats, group_read_bytes, process_read_bytes};
use tailwater_io::kernel::group::{hierarchy, of_process};
use tailwater_io::kernel::mounts;
use tailwater_io::kernel::page_cache::PageCache;
use tailwater_io::kernel::pressure::Pressure;
use tailwater_io::kernel::sched::RunQueue;

/// `/proc/vmstat` of Linux 6.18, shortened.
const VMSTAT: &str = "nr_free_pages 5094631\nnr_zone_inactive_file 634891\n\
    nr_inactive_file 634891\nnr_active_file 214695\nworkingset_refault_anon 7\n\
    workingset_refault_file 14678305\nworkingset_activate_anon 8\n\
    workingset_activate_file 4395395\nnr_file_pages 851803\nnr_dirty 8059\nnr_writeback 17\n\
    nr_dirtied 149505979\nnr_written 115757711\npgpgin 61497222\nallocstall_dma 1\n\
    allocstall_dma32 2\nallocstall_normal 30\nallocstall_movable 400\nallocstall_device 0\n\
    pgscan_kswapd 9\npgscan_direct 55\npgscan_direct_throttle 3\n";

/// `/proc/vmstat` of Linux 4.4, shortened. Refaults are not divided into anonymous and file pages,
/// there is one counter of allocation stalls, and scans are counted by zone.
const OLD_VMSTAT: &str = "nr_inactive_file 2434\nnr_active_file 14878\nnr_file_pages 17325\n\
    nr_dirty 17\nnr_writeback 1\nnr_dirtied 914\nnr_written 863\nworkingset_refault 12\n\
    workingset_activate 5\npgscan_kswapd_normal 70\npgscan_direct_dma 1\n\
    pgscan_direct_dma32 20\npgscan_direct_normal 300\npgscan_direct_movable 0\n\
    pgscan_direct_throttle 4000\nallocstall 6\n";

#[test]
fn vmstat_is_read_under_its_new_and_old_names() {
    let new = PageCache::of_machine(VMSTAT);
    assert_eq!(new.cached, Some(851_803));
    assert_eq!(new.dirty, Some(8059 + 17));
    assert_eq!((new.active_file, new.inactive_file), (Some(214_695), Some(634_891)));
    assert_eq!((new.dirtied, new.written), (Some(149_505_979), Some(115_757_711)));
    assert_eq!((new.refaulted, new.activated), (Some(14_678_305), Some(4_395_395)));
    assert_eq!((new.scanned_directly, new.stalled_allocations), (Some(55), Some(433)));

    let old = PageCache::of_machine(OLD_VMSTAT);
    assert_eq!((old.refaulted, old.activated), (Some(12), Some(5)));
    assert_eq!((old.scanned_directly, old.stalled_allocations), (Some(321), Some(6)));

    assert_eq!(PageCache::of_machine("nr_dirty 5\n").dirty, None, "without pages under writeback");
    assert_eq!(PageCache::of_machine("nonsense\n\nnr_dirty many\n"), PageCache::default());
}

#[test]
fn a_group_of_cgroup_v1_has_bytes_and_pages() {
    let own = "cache 819200\ndirty 8192\nwriteback 4096\nworkingset_refault_anon 1\n\
        workingset_refault_file 77\nactive_file 40960\ninactive_file 81920\n";
    let page_cache = PageCache::of_group_v1(own, 4096);
    assert_eq!(page_cache.cached, Some(200));
    assert_eq!(page_cache.dirty, Some(3));
    assert_eq!((page_cache.active_file, page_cache.inactive_file), (Some(10), Some(20)));
    assert_eq!(page_cache.refaulted, Some(77));
    assert_eq!((page_cache.activated, page_cache.dirtied), (None, None));

    let total = "total_cache 1638400\ntotal_workingset_refault_file 99\n";
    let with_those_below = PageCache::of_group_v1(&format!("{own}{total}"), 4096);
    assert_eq!(with_those_below.cached, Some(400));
    assert_eq!(with_those_below.refaulted, Some(99));
}

#[test]
fn cgroup_v2_statistics_have_other_names() {
    let text = "anon 1048576\nfile 8192000\nkernel 4096\nfile_mapped 4096\nfile_dirty 40960\n\
        file_writeback 8192\ninactive_anon 0\nactive_anon 1048576\ninactive_file 4096000\n\
        active_file 4092000\nslab 1\nworkingset_refault_anon 3\nworkingset_refault_file 200\n\
        workingset_activate_anon 4\nworkingset_activate_file 100\npgscan 3000\n\
        pgscan_kswapd 0\npgscan_direct 3000\n";
    let page_cache = PageCache::of_group_v2(text, 4096);
    assert_eq!((page_cache.cached, page_cache.dirty), (Some(2000), Some(12)));
    assert_eq!((page_cache.active_file, page_cache.inactive_file), (Some(999), Some(1000)));
    assert_eq!((page_cache.refaulted, page_cache.activated), (Some(200), Some(100)));
    assert_eq!((page_cache.scanned_directly, page_cache.dirtied), (Some(3000), None));
    // Linux 5.8 and older do not divide refaults into anonymous and file pages.
    let old = PageCache::of_group_v2("workingset_refault 5\nworkingset_activate 6\n", 4096);
    assert_eq!((old.refaulted, old.activated), (Some(5), Some(6)));
}

#[test]
fn diskstats_have_14_18_or_20_fields() {
    let of = |text: &str| DiskStats::parse(text, (259, 0));
    let text = " 259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11";
    let found = of(text).expect("14 fields");
    assert_eq!((found.reads, found.sectors_read, found.read_ms), (1, 3, 4));
    assert_eq!((found.writes, found.sectors_written, found.write_ms), (5, 7, 8));
    assert_eq!((found.busy_ms, found.weighted_ms), (10, 11));
    assert_eq!((found.flushes, found.flush_ms), (None, None));
    let text = format!("{text} 12 13 14 15");
    assert_eq!(of(&text), Some(found), "18 fields");
    let text = format!("   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9\n{text} 16 17\n");
    let flushing = of(&text).expect("20 fields");
    assert_eq!(flushing, DiskStats { flushes: Some(16), flush_ms: Some(17), ..found });
    assert_eq!(DiskStats::parse(&text, (259, 1)), None);
    // Linux 2.6 wrote only four counters for a partition; such a line is not parsed.
    assert_eq!(of(" 259 0 nvme0n1p1 1 2 3 4"), None);
}

#[test]
fn io_of_groups_and_processes() {
    let text = "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n\
        259:0 rbytes=90112 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021\n252:1\n";
    assert_eq!(group_read_bytes(text, (259, 0)), Some(90112));
    assert_eq!(group_read_bytes(text, (252, 1)), None);
    assert_eq!(group_read_bytes(text, (1, 1)), None);
    let text = "rchar: 6976\nwchar: 0\nsyscr: 10\nsyscw: 0\nread_bytes: 8192\nwrite_bytes: 7\n\
        cancelled_write_bytes: 1\n";
    assert_eq!(process_read_bytes(text), Some(8192));
    assert_eq!(process_read_bytes("rchar: 1\n"), None);
}

#[test]
fn pressure_may_lack_its_second_line() {
    let both = "some avg10=0.09 avg60=0.27 avg300=1.36 total=1106226891\n\
        full avg10=0.08 avg60=0.24 avg300=0.94 total=151508740\n";
    let parsed = Pressure { some_us: Some(1_106_226_891), full_us: Some(151_508_740) };
    assert_eq!(Pressure::parse(both), Some(parsed));
    let some = both.lines().next().expect("a line");
    assert_eq!(Pressure::parse(some), Some(Pressure { full_us: None, ..parsed }));
    assert_eq!(Pressure::parse(""), None);
}

#[test]
fn schedstat_of_a_thread() {
    let earlier = RunQueue { running_ns: 62_413, waiting_ns: 124_690, slices: 2 };
    assert_eq!(RunQueue::parse("62413 124690 2\n"), Some(earlier));
    assert_eq!(RunQueue::parse("0 0 0\n"), None, "a kernel without CONFIG_SCHED_INFO");
    assert_eq!(RunQueue::parse("62413"), None);
    let later = RunQueue { running_ns: 100_000, waiting_ns: 124_700, slices: 3 };
    let came = later.since(earlier);
    assert_eq!((came.running_ns, came.waiting_ns, came.slices), (37_587, 10, 1));
    assert_eq!(earlier.since(later), earlier, "another thread had this id before");
}

#[test]
fn mounts_and_the_groups_in_them() {
    let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
        50 27 254:0 /srv/a\\040b /mnt/bound\\040here rw shared:1 master:2 - ext4 /dev/vda rw\n\
        51 27 0:50 / /mnt rw - tmpfs none rw,size=4k\n\
        52 27 0:51 / /mnt rw - xfs /dev/sda1 rw\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 /part /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
        malformed\n";
    let mounts = mounts::parse(text);
    assert_eq!(mounts.len(), 7);
    let of = |path: &str| mounts::of_path(&mounts, Path::new(path)).expect("a mount");
    assert_eq!(of("/srv").kind, "ext4");
    assert_eq!(of("/mnt/x").kind, "xfs", "the last mount at a path hides the others");
    assert_eq!(of("/mnthere").target, Path::new("/"));
    let bound = of("/mnt/bound here/x");
    assert_eq!((bound.number, bound.part.as_path()), ((254, 0), Path::new("/srv/a b")));

    let cgroup = "4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/part/d\n";
    let group = |controller| of_process(&mounts, cgroup, controller);
    assert_eq!(group(Some("memory")).as_deref(), Some(Path::new("/sys/fs/cgroup/memory/a/b")));
    assert_eq!(group(Some("cpuacct")).as_deref(), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct/c")));
    assert_eq!(group(None).as_deref(), Some(Path::new("/sys/fs/cgroup/unified/d")));
    assert_eq!(of_process(&mounts, "0::/elsewhere\n", None), None, "not in the mounted part");
    assert_eq!(
        of_process(&mounts, "0::/part\n", None).as_deref(),
        Some(Path::new("/sys/fs/cgroup/unified"))
    );
    assert!(hierarchy(&mounts, Some("blkio")).is_none());
}
