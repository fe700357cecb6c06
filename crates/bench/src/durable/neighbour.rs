//! Busy processes, one for each processor, that compete with the writers.
//!
//! When the device completes a write, the waiting writer needs a processor. If a busy process runs
//! there, the writer may have to wait until that process's time slice ends. A time slice is a
//! scheduler tick, for example 4 ms at 250 Hz. So a delayed write may take more than 3 ms.
//!
//! Each busy process has its own session, as a program of another user would. If the kernel divides
//! processor time among sessions first (`sched_autogroup_enabled`), a busy process in the writers'
//! session would not compete with them as another user's program does.

use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use tailwater_latency::experiment::Finished;

use crate::store::Failure;

/// The command that runs a busy process.
pub(crate) const NEIGHBOUR_COMMAND: &str = "durable-neighbour";

/// Busy processes, which end when the value is dropped.
#[derive(Debug)]
pub(super) struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts one process per processor.
    pub(super) fn start() -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let mut neighbours = Self(Vec::new());
        for _ in 0..std::thread::available_parallelism()?.get() {
            let mut command = Command::new(&program);
            command.arg(NEIGHBOUR_COMMAND).stdin(Stdio::null()).stdout(Stdio::null());
            neighbours.0.push(command.spawn()?);
        }
        Ok(neighbours)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // `wait` below reaps the process even if it has already ended and cannot be killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps a processor busy until this process is killed. The system kills this process when the
/// thread that started it ends.
///
/// # Errors
/// I/O errors, if the system does not support killing the process with its parent.
pub(crate) fn compute() -> Result<Finished, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setsid()?;
    let mut sum = 0_u64;
    loop {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
}
