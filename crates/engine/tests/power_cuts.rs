//! Cuts the power while threads write to real filesystems. After each power cut, Tailwater and the
//! real RocksDB must both find every acknowledged synced write.
//!
//! The disk of each filesystem is served by this process, and loses unflushed writes when its power
//! is cut (see `tailwater_testkit::volatile_disk`). A child process writes to a database on the
//! filesystem until a request to the disk fails. The filesystem is then mounted again from what the
//! disk kept. The database is opened and read, and used until the next power cut. So the power may
//! be cut while the database is created, while it recovers, and while it writes, flushes and
//! compacts.
//!
//! A failure prints the seed of its disk. `TAILWATER_SEED` starts with the disk of that seed, and
//! repeats its random choices, though not the order in which threads run. `TAILWATER_ROUNDS` is the
//! number of disks for each filesystem and each choice of options for logs. The power of each disk
//! is cut [`LIVES`] times. Without root, FUSE, a loop device or the tools of a filesystem, the test
//! reports what it skips, and why.
//!
//! Logs and tables are also written with direct I/O. The writing processes report the modes in
//! effect, and how they had opened their tables according to the kernel, so that a mode that fell
//! back to the page cache is not mistaken for a direct one.
#![cfg(not(loom))]

#[path = "power_cuts/ledger.rs"]
mod ledger;
#[path = "power_cuts/lives.rs"]
mod lives;
#[path = "power_cuts/plan.rs"]
mod plan;
#[path = "power_cuts/process.rs"]
mod process;
#[path = "power_cuts/table_modes.rs"]
mod table_modes;

use lives::{Case, Ended, Played};
use process::Syncs;
use table_modes::Direct;
use tailwater_testkit::filesystem::say;
use tailwater_testkit::oracle::Oracle;
use tailwater_testkit::seed;

/// A kind of filesystem, and the property of the disk that it needs.
#[derive(Debug, Clone, Copy)]
struct Filesystem {
    kind: &'static str,
    /// Size of the aligned unit that a power cut never tears, in bytes.
    sector: usize,
    /// The mount options with which files are written directly if an option requests it.
    direct: &'static str,
}

const EXT4: Filesystem = Filesystem { kind: "ext4", sector: 512, direct: "defaults" };
const XFS: Filesystem = Filesystem { kind: "xfs", sector: 512, direct: "defaults" };
/// btrfs writes its superblock of 4 KiB in place, and needs a disk that does not tear that write.
/// From Linux 6.14 on, it writes files with checksums through the page cache, whatever is
/// requested.
const BTRFS: Filesystem = Filesystem { kind: "btrfs", sector: 4096, direct: "nodatasum" };

/// Options of all databases. Memtables are small, so that logs and memtables are switched, flushed
/// and removed all the time.
const SMALL: &str = "write_buffer_size=65536";

/// The options of logs to try.
const LOGS: [&str; 3] = [
    BUFFERED_LOGS,
    "wal_io_mode=direct;wal_preallocation_block_size=65536",
    "wal_io_mode=direct;wal_preallocation_block_size=0",
];

const BUFFERED_LOGS: &str = "wal_io_mode=default";

/// The options of tables to try. The seed of a disk pairs them with the options of logs. All but
/// the first request that flushes and compactions write directly.
const TABLES: [&str; 3] = [
    BUFFERED_TABLES,
    "use_direct_io_for_flush_and_compaction=true",
    "flush_write_io_mode=direct;compaction_write_io_mode=auto;\
     use_direct_io_for_compaction_reads=true",
];
const BUFFERED_TABLES: &str = "flush_write_io_mode=default";

/// Number of additional rounds to try if no compaction has written directly. The power may be cut
/// before the first one.
const MORE_ROUNDS: usize = 10;

/// Number of times that the power of each disk is cut. A life of a database lasts from one cut to
/// the next.
const LIVES: usize = 3;

/// Number of databases that lose data on purpose, to show that the test detects the loss.
const LOSERS: u64 = 4;

fn cut(filesystem: Filesystem) {
    let first = seed::rng().value();
    let kind = filesystem.kind;
    let mut oracle = Oracle::start(&format!("power cuts on {kind} as RocksDB sees them"));
    let mut played = Played::default();
    for round in 0..seed::rounds() + MORE_ROUNDS {
        if round >= seed::rounds() && played.written.directly_compacted > 0 {
            break;
        }
        let seed = first.wrapping_add(round as u64);
        for (at, logs) in LOGS.into_iter().enumerate() {
            let tables = TABLES[(at + (seed % 3) as usize) % TABLES.len()];
            let options = format!("{SMALL};{logs};{tables}");
            let direct = Direct { logs: logs != BUFFERED_LOGS, tables: tables != BUFFERED_TABLES };
            let (syncs, lives) = (Syncs::AsPlanned, LIVES);
            let options = &options[..];
            let case = Case { filesystem, options, direct, syncs, lives, seed };
            match case.play(&mut oracle) {
                Ok(more) => played += more,
                Err(Ended::Skipped(reason)) => {
                    return say(&format!("skipped: power cuts on {kind}: {reason}"));
                }
                Err(Ended::Lost(what) | Ended::Failed(what)) => panic!(
                    "{case}: {what}\n\
                     TAILWATER_SEED={seed} cargo test -p tailwater --test power_cuts on_{kind}"
                ),
            }
        }
    }
    say(&format!("{kind}: {} puts returned, {}", played.returned, played.written));
    assert!(played.returned > 0, "no put ever returned");
    assert!(played.written.direct_tables > 0, "no table was written with direct I/O");
    assert!(played.written.directly_compacted > 0, "no compaction wrote with direct I/O");
}

#[test]
fn synced_writes_survive_power_cuts_on_ext4() {
    cut(EXT4);
}

#[test]
fn synced_writes_survive_power_cuts_on_xfs() {
    cut(XFS);
}

#[test]
fn synced_writes_survive_power_cuts_on_btrfs() {
    cut(BTRFS);
}

#[test]
fn writes_with_pretended_syncs_are_lost() {
    // Here the writing process syncs no put, but the ledger assumes that all planned syncs take
    // place. So power cuts lose data. If the test did not detect this loss, the other tests would
    // prove nothing.
    let first = seed::rng().value();
    let mut lost = 0;
    for number in 0..LOSERS {
        let seed = first.wrapping_add(number);
        // Half of the losers write their tables directly.
        let direct = Direct { logs: false, tables: number % 2 == 1 };
        let tables = TABLES[usize::from(direct.tables)];
        let options = &format!("{SMALL};{tables}");
        let (syncs, lives) = (Syncs::Pretended, LIVES);
        let case = Case { filesystem: EXT4, options, direct, syncs, lives, seed };
        match case.play(&mut None) {
            Ok(_) => {}
            Err(Ended::Lost(what)) => {
                println!("{case}: {what}");
                lost += 1;
            }
            Err(Ended::Skipped(reason)) => return say(&format!("skipped: lost writes: {reason}")),
            Err(Ended::Failed(what)) => panic!("{case}: {what}"),
        }
    }
    assert!(lost > 0, "seed {first}: nothing was lost, so power cuts show nothing");
}
