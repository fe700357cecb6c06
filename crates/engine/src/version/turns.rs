//! A value to which threads have exclusive access in turn, first come, first served.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use tailwater_io::sync::{Condvar, Mutex};

/// A value, and the queue of the threads that want to use it. A thread may wait for the device
/// during its turn. This blocks only the threads in the queue, which hold no lock.
#[derive(Debug)]
pub(super) struct Turns<T> {
    tickets: Mutex<Tickets>,
    passed: Condvar,
    /// Locked by the thread whose turn it is.
    value: Mutex<T>,
}

#[derive(Debug, Default)]
struct Tickets {
    /// Ticket number for the next thread that joins the queue.
    next: u64,
    /// Ticket number of the thread whose turn it is.
    current: u64,
}

/// A thread's turn to use the value. Dropping it passes the turn to the next thread, even during a
/// panic.
#[derive(Debug)]
pub(super) struct Turn<'t, T> {
    turns: &'t Turns<T>,
    value: MutexGuard<'t, T>,
}

impl<T> Turns<T> {
    /// Creates a value that no thread uses yet.
    pub(super) fn new(value: T) -> Self {
        Self { tickets: Mutex::default(), passed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits until the threads that arrived earlier have had their turns.
    pub(super) fn wait(&self) -> Turn<'_, T> {
        let mut tickets = self.tickets.lock();
        let ticket = tickets.next;
        tickets.next += 1;
        while tickets.current != ticket {
            tickets = self.passed.wait(tickets);
        }
        drop(tickets);
        Turn { turns: self, value: self.value.lock() }
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Turn<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        self.turns.tickets.lock().current += 1;
        self.turns.passed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn turns_are_granted_first_come_first_served() {
        let turns = Turns::new(Vec::new());
        thread::scope(|scope| {
            let first = turns.wait();
            for number in 1..=5_u64 {
                let others = &turns;
                scope.spawn(move || others.wait().push(number));
                while turns.tickets.lock().next <= number {
                    thread::yield_now();
                }
            }
            assert!(first.is_empty());
        });
        assert_eq!(*turns.wait(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_panicking_user_passes_its_turn_on() {
        let turns = Turns::new(0);
        let panicked = thread::scope(|scope| {
            let user = scope.spawn(|| {
                let _turn = turns.wait();
                panic!("while it has its turn");
            });
            user.join()
        });
        assert!(panicked.is_err());
        *turns.wait() += 1;
        assert_eq!(*turns.wait(), 1);
    }
}
