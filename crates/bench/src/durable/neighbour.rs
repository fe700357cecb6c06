//! Busy processes, one for each processor, that compete with the writers.
//!
//! A writer that waited for the device needs a processor when the device completes. Next to a busy
//! process, the writer may wait for the end of that process's time slice, which is a scheduler
//! tick; this shows as writes of more than 3 ms.
//!
//! Each busy process has its own session, like another user's program. Where the kernel schedules
//! by session rather than by thread (`sched_autogroup_enabled`), a process in the writers' session
//! would hardly disturb them.

use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use crate::store::Failure;

/// The command that runs a busy process.
pub(crate) const NEIGHBOUR_COMMAND: &str = "durable-neighbour";

/// Busy processes, which end when the value is dropped.
#[derive(Debug)]
pub(super) struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts one process per processor.
    ///
    /// # Errors
    /// I/O errors.
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
            // A process that has already ended must still be reaped.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes until the process is killed. The system kills the process when the thread that started
/// it ends.
///
/// # Errors
/// I/O errors, if the system does not support killing the process with its parent.
pub(crate) fn compute() -> Result<String, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setsid()?;
    let mut sum = 0_u64;
    loop {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
}
