//! The workloads on Tailwater alone.

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::arguments::Arguments;
use tailwater_bench::engine::{Contender, Engine};
use tailwater_bench::tail::TailwaterEngine;
use tailwater_bench::{Tailwater, TailwaterScans};

fn main() -> ExitCode {
    let engines = [&Contender::<Tailwater>::new() as &dyn Engine];
    Arguments::parse().run(&engines, &[&TailwaterScans], &[&TailwaterEngine])
}
