//! The benchmark program, with Tailwater as its only engine.

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::command::Arguments;
use tailwater_bench::tailwater;
use tailwater_latency::tail::TAILWATER;

fn main() -> ExitCode {
    tailwater_io::descriptors::raise_open_files_max();
    Arguments::parse().run(&[tailwater::ENGINE], &[tailwater::SCANS], &[TAILWATER])
}
