//! Converts panics into errors.
//!
//! If a panic ended one of the log's threads, the appends and commands that the thread was working
//! on would never complete. Closing the log would wait for them forever.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tailwater_io::thread::panic_message;

use crate::{Error, ErrorKind, Result};

/// Runs `work` and converts a panic into an error. `what` names the work in the error's message.
///
/// # Errors
/// The error of `work`; `Panicked` if it panics.
pub(crate) fn catch<R>(what: impl Display, work: impl FnOnce() -> Result<R>) -> Result<R> {
    // Asserting unwind safety is justified: the caller treats a panic like an error, and refuses
    // later operations that the state may no longer support.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let message = match panic_message(&*payload) {
            Some(text) => format!("{what} panicked: {text}"),
            None => format!("{what} panicked"),
        };
        Err(Error::new(ErrorKind::Panicked, message))
    })
}
