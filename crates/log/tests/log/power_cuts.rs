//! The power is cut while a process appends, purges and removes segments on a real filesystem.
//! Every message that a topic with durability `disk` acknowledged must be found afterwards, unless
//! it was purged.
//!
//! The filesystem is on a disk that loses unflushed writes when the power is cut
//! (`tailwater_testkit::volatile_disk`). The disk needs root, FUSE, a loop device and the
//! filesystem's tools. Without them, the tests print that they were skipped. The environment
//! variable `TAILWATER_ROUNDS` sets the number of disks for each filesystem.

use tailwater_log::Durability;
use tailwater_testkit::filesystem::say;
use tailwater_testkit::volatile_disk::{Shape, VolatileDisk};

use crate::process::{self, Promised, TOPICS};

/// Number of power cuts of one disk.
const LIVES: usize = 3;

fn cut(kind: &str, sector: usize) {
    let first = tailwater_testkit::seed::rng().value();
    for round in 0..tailwater_testkit::seed::rounds() as u64 {
        let seed = first.wrapping_add(round);
        // From Linux 6.14 on, btrfs writes files with checksums through the page cache.
        let mounts: &[(&str, bool)] = match kind {
            "btrfs" => &[("defaults", false), ("nodatasum", true)],
            _ => &[("defaults", true)],
        };
        for &(options, directly) in mounts {
            if let Err(reason) = play(kind, sector, seed, options, directly) {
                return say(&format!("skipped: power cuts of a message log on {kind}: {reason}"));
            }
        }
    }
}

/// Cuts the power of one new disk [`LIVES`] times. Panics if messages were lost, or if appends were
/// to be direct and were not.
///
/// # Errors
/// Returns the prerequisite that this machine does not meet.
fn play(
    kind: &str,
    sector: usize,
    seed: u64,
    mount_options: &'static str,
    directly: bool,
) -> Result<(), String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let shape = Shape { sector, ..Shape::default() };
    let mut disk = VolatileDisk::new(shape, rng.u64(..))?;
    disk.set_mount_options(mount_options);
    disk.mount_as(kind)?;
    let mut promised = [Promised::default(); TOPICS.len()];
    for life in 0..LIVES {
        let most = 1 << rng.u32(7..=12);
        let requests = rng.u64(..most);
        disk.cut_after(requests);
        let directory = disk.path().join("log");
        let ended = process::append_until(&directory, false, directly, &mut promised, None);
        let what =
            format!("TAILWATER_SEED={seed}: {kind}, life {life}, cut after {requests} requests");
        assert!(disk.loss().is_some(), "{what}: it ended before the power was cut: {ended:?}");
        let mounted = disk.mount_again().unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = process::find(&mounted.join("log"), false)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let survives = |durability| durability == Durability::Disk;
        process::check(&found, &promised, survives)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        println!("{what}: {promised:?}");
        // After the next power cut, all messages that were found now must exist, because later
        // messages are appended after them.
        for (promised, found) in promised.iter_mut().zip(found) {
            promised.acknowledged = found.end;
        }
    }
    Ok(())
}

#[test]
fn acknowledged_messages_survive_power_cuts_on_ext4() {
    cut("ext4", 512);
}

#[test]
fn acknowledged_messages_survive_power_cuts_on_xfs() {
    cut("xfs", 512);
}
