//! The benchmark program, with Tailwater as its only engine.

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::command::{Arguments, Engines};
use tailwater_bench::tailwater;
use tailwater_latency::tail::TAILWATER;

fn main() -> ExitCode {
    tailwater_io::descriptors::raise_open_files_max();
    Arguments::parse().run(&Engines {
        stores: &[tailwater::ENGINE],
        scans: &[tailwater::SCANS],
        cold: &[tailwater::COLD],
        memory: &[tailwater::MEMORY],
        families: &[tailwater::FAMILIES],
        tail: &[TAILWATER],
    })
}
