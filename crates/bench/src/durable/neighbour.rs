//! Processes that do nothing but compute, one for each processor.
//!
//! A writer that waited for the device has to get a processor back when the device has answered.
//! Beside a process that computes it may wait for the end of that one's slice, which is a tick: it
//! shows as writes of more than 3 ms.
//!
//! Each has a session of its own, as another user's program has. Where the kernel weighs sessions
//! and not threads (`sched_autogroup_enabled`), one in the session of the writers would hardly
//! disturb them.

use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};

use crate::store::Failure;

/// The command that is such a process.
pub(crate) const NEIGHBOUR_COMMAND: &str = "durable-neighbour";

/// Such processes. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Neighbours(Vec<Child>);

impl Neighbours {
    /// Starts them.
    ///
    /// # Errors
    /// The system's.
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
            // One that has ended by itself is waited for all the same.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes until the process is killed, which the system does when the thread that started it
/// ends.
///
/// # Errors
/// The system's, where it does not promise that.
pub(crate) fn compute() -> Result<String, Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setsid()?;
    let mut sum = 0_u64;
    loop {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
}
