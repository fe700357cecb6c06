//! Conversion of panics into errors.
//!
//! User code that the database calls (such as comparators and merge operators) may panic, both on
//! the database's threads and on threads of callers. On one of the database's threads, [`catch`]
//! turns the panic into an error that names the user code. On a caller's thread, the panic unwinds
//! through the call. Other threads that wait for a result of that call get the error of
//! [`unwinding`].

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tailwater_format::user_code;
use tailwater_io::thread::panic_message;

use crate::error::{Error, ErrorKind, Result};

/// Runs `work`, and turns a panic into an error. `what` describes the work in the error's message,
/// for example "a flush".
///
/// # Errors
/// The errors of `work`; `Panicked` if it panics.
pub(crate) fn catch<R>(what: impl Display, work: impl FnOnce() -> Result<R>) -> Result<R> {
    user_code::forget_panicked();
    // Unwind safe: after a panic, the state that `work` has changed is as consistent as after an
    // error.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let error = panicked(what);
        Err(match panic_message(&*payload) {
            Some(text) => error.followed_by(text),
            None => error,
        })
    })
}

/// Calls `work`, code of a user's object, and catches a panic.
///
/// # Errors
/// If it panics: a description of the panic, which names the object.
pub(crate) fn catch_user_code<R>(work: impl FnOnce() -> R) -> std::result::Result<R, String> {
    // Unwind safe: the caller discards what `work` has changed.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let object = user_code::panicked().unwrap_or_else(|| "user code".to_owned());
        // A later panic of other code must not be attributed to this object.
        user_code::forget_panicked();
        match panic_message(&*payload) {
            Some(text) => format!("{object} panicked: {text}"),
            None => format!("{object} panicked"),
        }
    })
}

/// Returns the error for threads that wait for work of the current thread, which is panicking.
/// `what` describes the work.
#[cold]
pub(crate) fn unwinding(what: impl Display) -> Error {
    panicked(what)
}

fn panicked(what: impl Display) -> Error {
    let place = user_code::panicked().map_or_else(String::new, |object| format!(" in {object}"));
    Error::new(ErrorKind::Panicked, format!("{what} panicked{place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_panic_names_the_work_and_the_message() {
        let nothing = catch("a test", || Ok(7));
        assert_eq!(nothing.expect("no panic"), 7);
        let failed: Result<()> = catch("a test", || Err(Error::not_supported("this")));
        assert_eq!(failed.expect_err("an error").kind(), ErrorKind::NotSupported);
        let number = 7;
        let message = |work: fn()| {
            let error = catch("a test", || {
                work();
                Ok(())
            });
            let error = error.expect_err("a panic");
            assert_eq!(error.kind(), ErrorKind::Panicked);
            error.to_string()
        };
        assert_eq!(message(|| panic!("on purpose")), "a test panicked: on purpose");
        assert_eq!(message(|| std::panic::panic_any(7)), "a test panicked");
        let formatted: Result<()> = catch("a test", || panic!("number {number}"));
        assert_eq!(formatted.expect_err("a panic").message(), "a test panicked: number 7");
        let in_user_code = || user_code::call("comparator", || "mine", || panic!("on purpose"));
        assert_eq!(message(in_user_code), "a test panicked in comparator 'mine': on purpose");
        assert_eq!(message(|| panic!("again")), "a test panicked: again");
        let caught = catch_user_code(in_user_code);
        assert_eq!(caught, Err("comparator 'mine' panicked: on purpose".to_owned()));
        assert_eq!(user_code::panicked(), None);
        assert_eq!(catch_user_code(|| 7), Ok(7));
    }
}
