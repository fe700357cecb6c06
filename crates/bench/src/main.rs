//! The benchmark program, with Tailwater as its only engine.

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::command::Arguments;
use tailwater_bench::engine::{Contender, Engine};
use tailwater_bench::{Tailwater, TailwaterScans};
use tailwater_latency::tail::TailwaterEngine;

fn main() -> ExitCode {
    tailwater_io::descriptors::raise_open_files_max();
    let engines = [&Contender::<Tailwater>::new() as &dyn Engine];
    Arguments::parse().run(&engines, &[&TailwaterScans], &[&TailwaterEngine])
}
