//! Tests of tickets that cannot be written with the public interface.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::*;

/// A waker that counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_ticket_is_a_future() {
    let wakers: [Arc<Woken>; 2] = Default::default();
    let (completer, mut ticket) = Ticket::pending();
    for woken in &wakers {
        let waker = Waker::from(Arc::clone(woken));
        assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    completer.complete(Err(Error::closed("the log")));
    // Only the waker of the last poll is woken.
    assert_eq!(wakers.each_ref().map(|woken| woken.0.load(Ordering::SeqCst)), [0, 1]);
    for mut ticket in [ticket, Ticket::complete(Err(Error::closed("the log")))] {
        let polled = Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(outcome) = polled else { panic!("the ticket is complete") };
        assert_eq!(outcome.expect_err("an error").kind(), ErrorKind::Closed);
    }
}

/// Drops a completer by a panic.
fn drop_by_panic(completer: Completer) {
    let dropped = catch_unwind(AssertUnwindSafe(move || {
        let _completer = completer;
        panic!("on purpose");
    }));
    dropped.expect_err("the panic goes on");
}

/// Regression test: a completer that was never completed was dropped by a panic, and the callback
/// of its ticket also panicked. The second panic aborted the process.
#[test]
fn a_callback_may_panic_when_a_panic_drops_its_completer() {
    let called = Arc::new(Mutex::new(None));
    let (completer, ticket) = Ticket::pending();
    let outcome = Arc::clone(&called);
    ticket.on_complete(move |failed| {
        *outcome.lock() = Some(failed);
        panic!("on purpose, in the callback");
    });
    drop_by_panic(completer);
    let failed = called.lock().take().expect("the callback was called");
    assert_eq!(failed.expect_err("never completed").kind(), ErrorKind::Panicked);
}

/// Regression test: a thread that waited for a ticket kept the signal alive, and waited forever if
/// a panic had dropped the other end of the ticket.
#[test]
fn waiting_ends_when_a_panic_drops_the_completer() {
    let (completer, ticket) = Ticket::pending();
    assert!(!ticket.is_complete());
    drop_by_panic(completer);
    assert!(ticket.is_complete());
    assert_eq!(ticket.wait().expect_err("never completed").kind(), ErrorKind::Panicked);
}
