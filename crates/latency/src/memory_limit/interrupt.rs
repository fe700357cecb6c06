//! Cleanup actions that run when the program is interrupted by SIGINT (Ctrl-C), SIGHUP or SIGTERM.
//!
//! An action stays registered until its guard is dropped. At an interruption all registered actions
//! run, the most recently registered one first, and then the process exits with code 130. While
//! they run, creating or dropping a guard blocks, so that no other thread creates something that
//! would need another action.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use tailwater_io::sync::Mutex;

use crate::failure::Failure;

/// Exit code of the process after an interruption: the code that shells report for a program ended
/// by Ctrl-C.
const EXIT_CODE: i32 = 130;

type Action = Box<dyn FnOnce() + Send>;

static ACTIONS: Mutex<Actions> = Mutex::new(Actions { next: 0, by_number: BTreeMap::new() });

struct Actions {
    next: u64,
    by_number: BTreeMap<u64, Action>,
}

/// Keeps a cleanup action registered until this guard is dropped.
#[must_use = "dropping this unregisters the action"]
pub struct Guard {
    number: u64,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.number)
    }
}

/// Registers an action that runs at an interruption. The action must not create or drop a
/// [`Guard`], which would deadlock, and must not take long.
///
/// # Errors
/// If the handler cannot be installed, for example because this process already has another one.
pub fn on_interrupt(action: impl FnOnce() + Send + 'static) -> Result<Guard, Failure> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    let installed = INSTALLED
        .get_or_init(|| ctrlc::set_handler(end_this_process).map_err(|error| error.to_string()));
    installed.clone()?;
    let mut actions = ACTIONS.lock();
    let number = actions.next;
    actions.next += 1;
    actions.by_number.insert(number, Box::new(action));
    Ok(Guard { number })
}

/// Runs `work`, during which an interruption waits. If an interruption is already being handled,
/// this waits for the end of the process instead, so that an action and `work` do not undo each
/// other's steps. `work` must not create or drop a [`Guard`], which would deadlock, and must not
/// take long.
pub(crate) fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _actions = ACTIONS.lock();
    work()
}

/// Makes a signal that interrupts this program (for example by Ctrl-C) also kill a child process.
/// Drop the guard when the child has been waited for, because its process id may then be reused.
///
/// # Errors
/// The errors of [`on_interrupt`].
pub fn kill_on_interrupt(child: &std::process::Child) -> Result<Guard, Failure> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    on_interrupt(move || {
        if let Some(process) = process {
            let _ = kill_process(process, Signal::KILL);
        }
    })
}

impl Drop for Guard {
    fn drop(&mut self) {
        let action = ACTIONS.lock().by_number.remove(&self.number);
        drop(action);
    }
}

fn end_this_process() {
    let mut actions = ACTIONS.lock();
    while let Some((_, action)) = actions.by_number.pop_last() {
        action();
    }
    std::process::exit(EXIT_CODE);
}
