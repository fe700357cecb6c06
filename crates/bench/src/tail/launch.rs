//! Who does the work of a run: a process of its own; in tests also this one.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::child::{Assignment, Message};
use super::figures::Figures;
use crate::store::Failure;

/// The hidden command of the programs that do the experiment.
pub const CHILD_COMMAND: &str = "tail-child";

/// Does the work of runs.
pub(super) trait Launch {
    /// Does that of one.
    ///
    /// # Errors
    /// Those of the engine, and of the process that it is done in.
    fn run(&self, assignment: &Assignment) -> Result<Figures, Failure>;

    /// What holds runs to their memory limit, in words.
    fn memory_limit(&self) -> String;
}

/// A process for each run.
pub(super) struct Processes;

impl Launch for Processes {
    fn run(&self, assignment: &Assignment) -> Result<Figures, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(CHILD_COMMAND).arg(serde_json::to_string(assignment)?);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("the process of the run has no output")?;
        let mut figures = None;
        for line in BufReader::new(output).lines() {
            match serde_json::from_str(&line?)? {
                Message::Began => {}
                Message::Ended(measured) => figures = Some(*measured),
            }
        }
        let status = child.wait()?;
        match figures {
            Some(figures) if status.success() => Ok(figures),
            _ => Err(format!("the process of the run failed: {status}").into()),
        }
    }

    fn memory_limit(&self) -> String {
        "none".to_owned()
    }
}
