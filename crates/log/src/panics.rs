//! Conversion of panics into errors.
//!
//! Without the conversion, a panic in one of the log's threads would end the thread. The partition
//! that the thread worked for would never complete another ticket, and closing the log would wait
//! forever.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, ErrorKind, Result};

/// Runs `work`, and returns an error if it panics. `what` names the work in the message.
///
/// # Errors
/// Errors from the work; `Internal` if it panics.
pub(crate) fn catch<R>(what: impl Display, work: impl FnOnce() -> Result<R>) -> Result<R> {
    // Unwind safety: a panic is handled like an error; the caller refuses further operations that
    // the state may no longer support.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let message = match text(&*payload) {
            Some(text) => format!("{what} panicked: {text}"),
            None => format!("{what} panicked"),
        };
        Err(Error::new(ErrorKind::Internal, message))
    })
}

/// Returns the message of a panic, if it is text.
fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied())
}
