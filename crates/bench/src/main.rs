//! The workloads on Tailwater alone.

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::Tailwater;
use tailwater_bench::arguments::Arguments;
use tailwater_bench::engine::{Contender, Engine};
use tailwater_bench::tail::TailwaterEngine;

fn main() -> ExitCode {
    Arguments::parse().run(&[&Contender::<Tailwater>::new() as &dyn Engine], &[&TailwaterEngine])
}
