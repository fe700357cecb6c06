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
//! number of disks for each filesystem and each set of options. The power of each disk is cut
//! [`LIVES`] times. Without root, FUSE, a loop device or the tools of a filesystem, the test
//! reports what it skips, and why.
#![cfg(not(loom))]

#[path = "power_cuts/ledger.rs"]
mod ledger;
#[path = "power_cuts/lives.rs"]
mod lives;
#[path = "power_cuts/plan.rs"]
mod plan;
#[path = "power_cuts/process.rs"]
mod process;

use lives::{Case, Ended};
use process::Syncs;
use tailwater_testkit::filesystem::say;
use tailwater_testkit::oracle::Oracle;
use tailwater_testkit::seed;

/// A kind of filesystem, and the property of the disk that it needs.
#[derive(Debug, Clone, Copy)]
struct Filesystem {
    kind: &'static str,
    /// Size of the aligned unit that a power cut never tears, in bytes.
    sector: usize,
}

const EXT4: Filesystem = Filesystem { kind: "ext4", sector: 512 };
const XFS: Filesystem = Filesystem { kind: "xfs", sector: 512 };
/// btrfs writes its superblock of 4 KiB in place, and needs a disk that does not tear that write.
const BTRFS: Filesystem = Filesystem { kind: "btrfs", sector: 4096 };

/// The sets of options to try. Memtables are small, so that logs and memtables are switched,
/// flushed and removed all the time.
const OPTIONS: [&str; 3] = [
    "write_buffer_size=65536",
    "write_buffer_size=65536;wal_io_mode=direct;wal_preallocation_block_size=65536",
    "write_buffer_size=65536;wal_io_mode=direct;wal_preallocation_block_size=0",
];

/// Number of times that the power of each disk is cut. A life of a database lasts from one cut to
/// the next.
const LIVES: usize = 3;

/// Number of databases that lose data on purpose, to show that the test detects the loss.
const LOSERS: u64 = 4;

fn cut(filesystem: Filesystem) {
    let first = seed::rng().value();
    let kind = filesystem.kind;
    let mut oracle = Oracle::start(&format!("power cuts on {kind} as RocksDB sees them"));
    let mut returned = 0;
    for round in 0..seed::rounds() as u64 {
        for options in OPTIONS {
            let seed = first.wrapping_add(round);
            let case = Case { filesystem, options, syncs: Syncs::AsPlanned, lives: LIVES, seed };
            match case.play(&mut oracle) {
                Ok(puts) => returned += puts,
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
    assert!(returned > 0, "no put ever returned");
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
        let options = OPTIONS[0];
        let case = Case { filesystem: EXT4, options, syncs: Syncs::Pretended, lives: LIVES, seed };
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
