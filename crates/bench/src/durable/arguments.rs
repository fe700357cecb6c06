//! The command's arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use tailwater_latency::experiment::Earlier;
use tailwater_latency::parsing::{self, above_zero, at_least_one};

use super::raw::Raw;
use crate::subjects::Subjects;
use crate::workloads::puts::Length;

/// Maximum number of concurrent writers.
const WRITERS_MAX: usize = 1024;

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct DurableArguments {
    /// Comma-separated list of measurements
    #[arg(long, value_delimiter = ',', default_value = "synced,fillseq,unsynced")]
    pub(super) parts: Vec<Part>,
    /// Comma-separated numbers of concurrent writers in the part 'synced'; each number is measured
    /// separately
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64", value_parser = writers)]
    pub(super) writers: Vec<usize>,
    /// Comma-separated numbers of concurrent writers in the part 'unsynced'; each number is
    /// measured separately
    #[arg(long, value_delimiter = ',', default_value = "1,4", value_parser = writers)]
    pub(super) unsynced_writers: Vec<usize>,
    /// Duration of each measurement of the parts 'synced' and 'unsynced', in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = above_zero)]
    duration: f64,
    /// Number of puts in each measurement of the parts 'synced' and 'unsynced', by all writers
    /// together, instead of a duration
    #[arg(long, value_parser = at_least_one, conflicts_with = "duration")]
    puts: Option<usize>,
    /// Number of puts in the part 'fillseq'
    #[arg(long, default_value_t = 10_000, value_parser = at_least_one)]
    num: usize,
    /// Number of runs
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(super) runs: usize,
    /// Comma-separated list of configurations of Tailwater
    #[arg(long, value_delimiter = ',', default_value = "buffered,direct")]
    pub(super) configurations: Vec<Configuration>,
    /// Additional configuration of Tailwater, as an option string; may be repeated
    #[arg(long, value_name = "NAME=VALUE;...")]
    pub(super) tailwater_options: Vec<String>,
    /// Comma-separated list of ways to make raw writes durable; the report compares all rates with
    /// the rate of the first way
    #[arg(long, value_delimiter = ',', default_value = "dsync")]
    pub(super) raw: Vec<Raw>,
    /// Keep every processor busy with a computing process
    #[arg(long)]
    pub(super) neighbour: bool,
    /// Output directory of report.html, its picture report.svg, report.json and table.txt
    #[arg(long, value_name = "DIR", default_value = "tailwater-durable")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) earlier: Earlier,
    #[command(flatten)]
    pub(super) subjects: Subjects,
}

/// A part of the benchmark, which can be selected on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// Synced puts by concurrent writers, and raw writes
    Synced,
    /// Synced puts by one writer, in the order of their keys
    #[value(name = "fillseq")]
    #[serde(rename = "fillseq")]
    FillSeq,
    /// Unsynced puts
    Unsynced,
}

impl Part {
    /// Returns the name on the command line, which reports also use.
    pub(super) fn name(self) -> String {
        parsing::name(&self)
    }
}

/// A configuration of Tailwater: the value of `wal_io_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Configuration {
    /// The log goes through the page cache
    Buffered,
    /// The log bypasses the page cache
    Direct,
    /// The log bypasses the page cache only while most writes are synced
    Auto,
}

impl DurableArguments {
    /// Returns when a measurement of this part ends: after a duration, or after a number of puts.
    pub(super) fn length(&self, part: Part) -> Length {
        match (part, self.puts) {
            (Part::FillSeq, _) => Length::Writes(self.num as u64),
            (_, Some(puts)) => Length::Writes(puts as u64),
            (_, None) => Length::Time(Duration::from_secs_f64(self.duration)),
        }
    }
}

fn writers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=WRITERS_MAX).contains(&number) => Ok(number),
        _ => Err(format!("not a number from 1 to {WRITERS_MAX}")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        arguments: DurableArguments,
    }

    /// Parses `line` and returns the arguments, or the error message.
    pub(in super::super) fn typed(line: &[&str]) -> Result<DurableArguments, String> {
        let typed = Typed::try_parse_from(std::iter::once(&"durable").chain(line));
        typed.map(|typed| typed.arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn measurements_have_the_length_that_was_typed() {
        let arguments = typed(&[]).unwrap();
        assert_eq!(arguments.writers, [1, 4, 16, 64]);
        assert_eq!(arguments.length(Part::Synced), Length::Time(Duration::from_secs(5)));
        assert_eq!(arguments.length(Part::FillSeq), Length::Writes(10_000));
        let arguments = typed(&["--puts", "300", "--num", "20", "--writers", "2,8"]).unwrap();
        assert_eq!(arguments.writers, [2, 8]);
        assert_eq!(arguments.length(Part::Unsynced), Length::Writes(300));
        assert_eq!(arguments.length(Part::FillSeq), Length::Writes(20));
        let arguments = typed(&["--duration", "0.5"]).unwrap();
        assert_eq!(arguments.length(Part::Unsynced), Length::Time(Duration::from_millis(500)));
    }

    #[test]
    fn what_is_refused_is_named() {
        for (line, name) in [
            (["--writers", "4,0"], "--writers"),
            (["--writers", "1025"], "--writers"),
            (["--duration", "0"], "--duration"),
            (["--puts", "0"], "--puts"),
            (["--num", "0"], "--num"),
            (["--runs", "0"], "--runs"),
            (["--parts", "synced,overwrite"], "--parts"),
            (["--raw", "fsync"], "--raw"),
            (["--configurations", "uncached"], "--configurations"),
        ] {
            let refusal = typed(&line).unwrap_err();
            assert!(refusal.contains(name), "{line:?}: {refusal}");
        }
        let both = typed(&["--puts", "1", "--duration", "1"]).unwrap_err();
        assert!(both.contains("--puts") && both.contains("--duration"), "{both}");
    }

    #[test]
    fn parts_are_typed_as_they_are_reported() {
        for part in Part::value_variants() {
            assert_eq!(Part::from_str(&part.name(), false), Ok(*part));
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
        }
    }
}
