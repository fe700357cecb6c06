//! The lives of a database on a disk whose power is cut repeatedly. A life begins with the recovery
//! from what the previous power cut left. After that, threads write until the next power cut.

use std::fmt;
use std::ops::AddAssign;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fastrand::Rng;
use tailwater_testkit::dump::Entry;
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::volatile_disk::{Shape, VolatileDisk};

use crate::Filesystem;
use crate::ledger::Ledger;
use crate::plan::Plan;
use crate::process::{self, Syncs};
use crate::table_modes::{Direct, Written};

/// Range of a random exponent `e`. A life is the time between two power cuts. In each life, the
/// disk executes a random number of requests, fewer than 2^e, before the power is cut. Opening a
/// database takes some 30 to 80 requests.
const REQUESTS: RangeInclusive<u32> = 6..=11;

/// A test of one database: the filesystem, the options and other parameters. `lives` is the number
/// of power cuts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) filesystem: Filesystem,
    pub(crate) options: &'a str,
    /// What the options request to be written with direct I/O.
    pub(crate) direct: Direct,
    pub(crate) syncs: Syncs,
    pub(crate) lives: usize,
    pub(crate) seed: u64,
}

/// What happened in a case.
#[derive(Debug, Default)]
pub(crate) struct Played {
    /// Number of puts that returned.
    pub(crate) returned: u64,
    pub(crate) written: Written,
}

impl AddAssign for Played {
    fn add_assign(&mut self, more: Self) {
        self.returned += more.returned;
        self.written += more.written;
    }
}

/// Why a case ended early.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The test cannot run on this machine.
    Skipped(String),
    /// A guaranteed write is missing, or a value was found that was never written.
    Lost(String),
    /// Any other failure.
    Failed(String),
}

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { filesystem, options, seed, .. } = self;
        write!(f, "{}, options '{options}', seed {seed}", filesystem.kind)
    }
}

impl Case<'_> {
    /// Cuts the power of the database's disk `lives` times.
    pub(crate) fn play(self, oracle: &mut Option<Oracle>) -> Result<Played, Ended> {
        let mut rng = Rng::with_seed(self.seed);
        // If the disk takes long to flush, more writes are unflushed when the power is cut.
        let flush_delay = Duration::from_millis(if rng.bool() { 2 } else { 0 });
        let shape = Shape { sector: self.filesystem.sector, flush_delay, ..Shape::default() };
        let mut disk = VolatileDisk::new(shape, rng.u64(..)).map_err(Ended::Skipped)?;
        if self.direct != Direct::default() {
            disk.set_mount_options(self.filesystem.direct);
        }
        disk.mount_as(self.filesystem.kind).map_err(Ended::Skipped)?;
        let plan = Plan { seed: rng.u64(..) };
        let mut ledger = Ledger::new(plan);
        let mut played = Played::default();
        for life in 0..self.lives {
            let most = 1 << rng.u32(REQUESTS);
            let requests = rng.u64(..most);
            disk.cut_after(requests);
            let named =
                |what: String| format!("life {life}, cut after {requests} requests: {what}");
            let written = self.live(&disk, plan, &mut ledger);
            let written = written.map_err(|error| Ended::Failed(named(error)))?;
            written.check(self.direct).map_err(|error| Ended::Failed(named(error)))?;
            let loss = disk.loss().map(|loss| loss.to_string()).unwrap_or_default();
            println!(
                "{self}: {}",
                named(format!("{} puts returned, {written}, {loss}", ledger.count()))
            );
            played += Played { returned: ledger.count(), written };
            self.look(&mut disk, &mut ledger, oracle).map_err(|ended| ended.named(named))?;
        }
        Ok(played)
    }

    /// Writes to the database until the power is cut.
    fn live(self, disk: &VolatileDisk, plan: Plan, ledger: &mut Ledger) -> Result<Written, String> {
        let directory = disk.path().join("db");
        let gone = || disk.loss().is_some();
        process::write_until_it_fails(&directory, self.options, plan, self.syncs, ledger, gone)
    }

    /// Mounts the filesystem again after the power cut, and checks the contents of the database
    /// against the ledger. RocksDB opens a copy of the database, and Tailwater opens the database
    /// itself.
    fn look(
        self,
        disk: &mut VolatileDisk,
        ledger: &mut Ledger,
        oracle: &mut Option<Oracle>,
    ) -> Result<(), Ended> {
        let mounted = disk.mount_again();
        let mounted =
            mounted.map_err(|error| Ended::Failed(format!("not mounted again: {error}")))?;
        let directory = mounted.join("db");
        if let Some(oracle) = oracle {
            let found = rocksdb_finds(&directory, oracle).map_err(Ended::Failed)?;
            ledger.check(&found).map_err(|wrong| Ended::Lost(format!("by RocksDB\n{wrong}")))?;
        }
        let found = process::read_all(&directory, self.options)
            .map_err(|error| Ended::Failed(format!("opening it again: {error}")))?;
        let found = ledger.check(&found).map_err(Ended::Lost)?;
        ledger.live_on(found);
        Ok(())
    }
}

impl Ended {
    fn named(self, named: impl Fn(String) -> String) -> Self {
        match self {
            Self::Skipped(reason) => Self::Skipped(reason),
            Self::Lost(what) => Self::Lost(named(what)),
            Self::Failed(what) => Self::Failed(named(what)),
        }
    }
}

/// Returns the contents that RocksDB recovers from a copy of a database.
fn rocksdb_finds(directory: &Path, oracle: &mut Oracle) -> Result<Vec<Entry>, String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let copy = scratch.path().join("db");
    // The power may have been cut before the database's directory existed.
    if directory.exists() {
        let copied = Command::new("cp").arg("-r").arg(directory).arg(&copy).output();
        let copied = copied.map_err(|error| format!("cp: {error}"))?;
        if !copied.status.success() {
            return Err(format!("cp: {}", String::from_utf8_lossy(&copied.stderr)));
        }
    }
    oracle.dump(Script::open(&copy, "", &[])).map_err(|error| format!("RocksDB says {error}"))
}
