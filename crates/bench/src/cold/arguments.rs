//! The command's arguments.

use clap::{Args, ValueEnum};
use serde::Serialize;
use tailwater_io::IoMode;
use tailwater_latency::parsing::{above_zero, at_least_one, name};

use super::subject::ColdEngine;
use crate::store::Failure;
use crate::subjects::Subjects;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct ColdArguments {
    /// Comma-separated list of parts to measure
    #[arg(long, value_delimiter = ',', default_value = "get,multi-get,scan,seek")]
    pub(super) parts: Vec<Part>,
    /// Comma-separated list of modes in which gets and seeks read; scans read directly
    #[arg(long, value_delimiter = ',', default_value = "buffered,direct")]
    pub(super) modes: Vec<Mode>,
    /// Total length of the keys and values of each database, in GB
    #[arg(long, default_value_t = 2.0, value_parser = above_zero)]
    pub(super) gigabytes: f64,
    /// Number of keys in a batch
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub(super) batch_size: usize,
    /// Number of gets, batches or seeks in a measurement
    #[arg(long, default_value_t = 1000, value_parser = at_least_one)]
    pub(super) reads: usize,
    /// Number of times that every row is measured
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(super) rounds: usize,
    #[command(flatten)]
    pub(super) subjects: Subjects,
}

impl ColdArguments {
    /// Returns the requested engines; the first is compared with the others.
    ///
    /// # Errors
    /// If none of the known engines was requested.
    pub(super) fn chosen<'e>(
        &self,
        known: &'e [ColdEngine],
    ) -> Result<Vec<&'e ColdEngine>, Failure> {
        let chosen: Vec<_> =
            known.iter().filter(|engine| self.subjects.wants(engine.name)).collect();
        if chosen.is_empty() {
            let names: Vec<_> = known.iter().map(|engine| engine.name).collect();
            return Err(format!("--engines: none of these; there are: {}", names.join(", ")).into());
        }
        Ok(chosen)
    }
}

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// One key at a time
    Get,
    /// Batches of keys
    MultiGet,
    /// Scans of everything
    Scan,
    /// Seeks in a database with six levels
    Seek,
}

/// How an engine reads its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    /// Through the page cache
    Buffered,
    /// With direct I/O
    Direct,
}

impl Mode {
    /// Returns the mode's name.
    pub(super) fn name(self) -> String {
        name(&self)
    }

    /// Returns the options of the mode.
    pub(super) fn options(self) -> &'static str {
        match self {
            Self::Buffered => "use_direct_reads=false",
            Self::Direct => "use_direct_reads=true",
        }
    }

    /// Returns the mode of raw reads.
    pub(super) fn io_mode(self) -> IoMode {
        match self {
            Self::Buffered => IoMode::Buffered,
            Self::Direct => IoMode::Direct,
        }
    }
}
