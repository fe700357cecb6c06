//! `tailwater tail`: measures how direct I/O affects the tail latency of reads.

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use tailwater_latency::Failure;
use tailwater_latency::tail::{self, TAILWATER, TailArguments, TailEngine};

/// The engines of this program.
const ENGINES: [TailEngine; 1] = [TAILWATER];

pub(crate) fn run(arguments: &TailArguments) -> ExitCode {
    let code = match tail::check(arguments, &ENGINES) {
        Ok(()) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(2),
    };
    let printed = tail::run(arguments, &ENGINES).and_then(|finished| {
        let text: String = finished.into_iter().map(|finished| finished.text).collect();
        match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    });
    ended(printed, code)
}

pub(crate) fn run_child(assignment: &str) -> ExitCode {
    ended(tail::run_child(assignment, &ENGINES), ExitCode::FAILURE)
}

fn ended(outcome: Result<(), Failure>, otherwise: ExitCode) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            crate::output::complain(&failure);
            otherwise
        }
    }
}
