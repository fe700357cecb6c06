//! The command line.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tailwater_latency::experiment::Finished;
use tailwater_latency::say;
use tailwater_latency::tail::{self, CHILD_COMMAND, TailArguments, TailEngine};

use crate::backup::BackupArguments;
use crate::basket::BasketArguments;
use crate::cold::{ColdArguments, ColdEngine};
use crate::durable::{self, DurableArguments, NEIGHBOUR_COMMAND};
use crate::family_bursts::{FamilyBurstArguments, FamilyEngine};
use crate::hot_key::HotKeyArguments;
use crate::memory::{self, MemoryArguments, MemoryEngine};
use crate::range_deletions::RangeDeletionArguments;
use crate::snapshot_scans::{ScanEngine, SnapshotScanArguments};
use crate::store::{Engine, Failure};
use crate::sustained::SustainedArguments;

/// Measures engines side by side; see each command.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs db_bench's workloads and prints operations per second: every run, and the medians.
    Basket(BasketArguments),
    /// Reads data that is in no cache: gets, batches, scans and seeks, compared with raw reads of
    /// the device.
    Cold(ColdArguments),
    /// Gets one key repeatedly, first in one thread and then in several. Shows by how much the gets
    /// become slower because threads write to the same cache lines.
    HotKey(HotKeyArguments),
    /// Overwrites at full speed for minutes; reports space, bytes written, stalls and memory.
    Sustained(SustainedArguments),
    /// Writes and reads at full speed in databases that share their memory limits, and reports the
    /// resident memory.
    Memory(MemoryArguments),
    /// Writes bursts to many column families, one of which has large memtables; reports how long
    /// the others wait for flushes.
    FamilyBursts(FamilyBurstArguments),
    /// The child process of `memory`.
    #[command(name = memory::CHILD_COMMAND, hide = true)]
    MemoryChild { assignment: String },
    /// Deletes overlapping ranges; reports the rate, the effect on reads, and the size of the
    /// flushed tables.
    RangeDeletions(RangeDeletionArguments),
    /// Scans one snapshot, with and without iterators that refresh themselves.
    SnapshotScans(SnapshotScanArguments),
    /// Makes a logical backup during overwrites, and reports the memory and space that its iterator
    /// pins.
    Backup(BackupArguments),
    /// Measures durable puts, compared with raw writes to the device.
    Durable(DurableArguments),
    /// Measures the effect of direct I/O on the tail latency of reads during compactions.
    Tail(TailArguments),
    /// The child process of one run of `tail`.
    #[command(name = CHILD_COMMAND, hide = true)]
    TailChild { assignment: String },
    /// A process that keeps a processor busy.
    #[command(name = NEIGHBOUR_COMMAND, hide = true)]
    DurableNeighbour,
}

/// The engines that can be measured. The command determines which of the lists is used.
#[derive(Clone, Copy)]
pub struct Engines<'e> {
    /// The engines of commands that need no other list.
    pub stores: &'e [Engine],
    /// The engines of `snapshot-scans` and `backup`.
    pub scans: &'e [ScanEngine],
    /// The engines of `cold`.
    pub cold: &'e [ColdEngine],
    /// The engines of `memory`.
    pub memory: &'e [MemoryEngine],
    /// The engines of `family-bursts`.
    pub families: &'e [FamilyEngine],
    /// The engines of `tail`.
    pub tail: &'e [TailEngine],
}

impl fmt::Debug for Engines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.stores.iter().map(|engine| engine.name).collect();
        f.debug_struct("Engines").field("stores", &names).finish_non_exhaustive()
    }
}

impl Arguments {
    /// Runs the command and prints the result.
    pub fn run(&self, engines: &Engines<'_>) -> ExitCode {
        match self.finish(engines) {
            Ok(finished) => {
                let text: String = finished.into_iter().map(|finished| finished.text).collect();
                match std::io::stdout().write_all(text.as_bytes()) {
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                        say!("error: the report cannot be written: {error}");
                        ExitCode::FAILURE
                    }
                    // A broken pipe is no error: the reader of the output needs no more of it.
                    _ => ExitCode::SUCCESS,
                }
            }
            Err(failure) => {
                say!("error: {failure}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs the command and returns its finished experiments.
    fn finish(&self, engines: &Engines<'_>) -> Result<Vec<Finished>, Failure> {
        let known = engines.stores;
        let finished = match &self.command {
            Command::Basket(arguments) => arguments.run(known, engines.cold),
            Command::Cold(arguments) => arguments.run(engines.cold),
            Command::HotKey(arguments) => arguments.run(known),
            Command::Sustained(arguments) => return arguments.run(known),
            Command::FamilyBursts(arguments) => arguments.run(engines.families),
            Command::Memory(arguments) => arguments.run(engines.memory),
            Command::MemoryChild { assignment } => memory::run_child(assignment, engines.memory),
            Command::RangeDeletions(arguments) => arguments.run(known),
            Command::SnapshotScans(arguments) => arguments.run(engines.scans),
            Command::Backup(arguments) => arguments.run(engines.scans),
            Command::Durable(arguments) => durable::run(arguments, known),
            Command::DurableNeighbour => durable::compute(),
            Command::Tail(arguments) => return tail::run(arguments, engines.tail),
            Command::TailChild { assignment } => {
                return tail::run_child(assignment, engines.tail).map(|()| Vec::new());
            }
        };
        Ok(vec![finished?])
    }
}
