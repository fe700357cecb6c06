//! Panics on the way to becoming errors.
//!
//! Code of the user's that the database calls may panic, in its threads and in those of callers.
//! What the database does for itself goes on from there with an error that names what panicked.
//! What a caller asked for in his own thread panics there, and only what he holds of the database
//! is given up: see [`unwinding`].

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tailwater_format::user_code;

use crate::{Error, ErrorKind, Result};

/// Does some work, and answers with an error if it panics. `what` says what it is: "a flush".
///
/// # Errors
/// Those of the work; panicked.
pub(crate) fn catch<R>(what: impl Display, work: impl FnOnce() -> Result<R>) -> Result<R> {
    user_code::forget_panicked();
    // What the work has changed is whole between statements, as after an error.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let error = panicked(what);
        Err(match text(&*payload) {
            Some(text) => error.followed_by(text),
            None => error,
        })
    })
}

/// The error that is left of something by the panic that unwinds this thread, for others who wait
/// for it.
#[cold]
pub(crate) fn unwinding(what: impl Display) -> Error {
    panicked(what)
}

fn panicked(what: impl Display) -> Error {
    let place = user_code::panicked().map_or_else(String::new, |object| format!(" in {object}"));
    Error::new(ErrorKind::Panicked, format!("{what} panicked{place}"))
}

/// What a panic said, if it is text.
fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_panicked_and_what_it_said() {
        let nothing = catch("a test", || Ok(7));
        assert_eq!(nothing.expect("no panic"), 7);
        let failed: Result<()> = catch("a test", || Err(Error::not_supported("this")));
        assert_eq!(failed.expect_err("an error").kind(), ErrorKind::NotSupported);
        let number = 7;
        let told = |work: fn()| {
            let error = catch("a test", || {
                work();
                Ok(())
            });
            let error = error.expect_err("a panic");
            assert_eq!(error.kind(), ErrorKind::Panicked);
            error.to_string()
        };
        assert_eq!(told(|| panic!("on purpose")), "a test panicked: on purpose");
        assert_eq!(told(|| std::panic::panic_any(7)), "a test panicked");
        let formatted: Result<()> = catch("a test", || panic!("number {number}"));
        assert_eq!(formatted.expect_err("a panic").message(), "a test panicked: number 7");
        let in_user_code = || user_code::call("comparator", || "mine", || panic!("on purpose"));
        assert_eq!(told(in_user_code), "a test panicked in comparator 'mine': on purpose");
        assert_eq!(told(|| panic!("again")), "a test panicked: again");
    }
}
