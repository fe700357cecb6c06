//! Tests of the signals of tickets that cannot be written with the public interface.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// Regression test: a signal that was never completed was dropped by a panic, and its callback also
/// panicked. The second panic aborted the process.
#[test]
fn a_callback_may_panic_when_a_panic_drops_its_signal() {
    let called = Arc::new(Mutex::new(None));
    let signal = Signal::new();
    let outcome = Arc::clone(&called);
    Ticket::pending(Arc::clone(&signal)).on_complete(move |failed| {
        *outcome.lock() = Some(failed);
        panic!("on purpose, in the callback");
    });
    let dropped = catch_unwind(AssertUnwindSafe(move || {
        let _signal = signal;
        panic!("on purpose");
    }));
    dropped.expect_err("the first panic goes on");
    let failed = called.lock().take().expect("the callback was called");
    assert_eq!(failed.expect_err("never completed").kind(), crate::ErrorKind::Closed);
}
