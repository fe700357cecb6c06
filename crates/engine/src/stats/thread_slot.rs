//! Thread numbers: each of up to [`NUMBERS`] living threads has a unique number below [`NUMBERS`].
//! Data indexed by a thread's number has a single writer at a time. When a thread ends, a later
//! thread may get its number. The numbers of `tailwater_io::thread::ordinal`, by contrast, are
//! unbounded and never reused.

use std::cell::Cell;

use tailwater_io::sync::Mutex;

/// Maximum number of threads that have a thread number at the same time. Further threads get none.
pub(super) const NUMBERS: usize = 128;
/// Marks a thread that has not yet requested a thread number.
const UNKNOWN: usize = usize::MAX;
/// Marks a thread that has no thread number, because all were in use or the thread is ending.
const NONE: usize = usize::MAX - 1;

/// The numbers that no living thread has.
static FREE: Mutex<Free> = Mutex::new(Free { returned: Vec::new(), next: 0 });

struct Free {
    returned: Vec<usize>,
    /// The lowest number that was never given out.
    next: usize,
}

thread_local! {
    /// This thread's number. It has no destructor, so that reading it is one plain load.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    /// Releases this thread's number for reuse by other threads when the thread ends.
    static ENDING: Ending = const { Ending };
}

/// A thread-local value whose destructor releases the number of the ending thread for reuse.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let number = NUMBER.replace(NONE);
        if number < NUMBERS {
            let mut free = FREE.lock();
            free.returned.push(number);
        }
    }
}

/// Returns the calling thread's number, below [`NUMBERS`]; `None` if none is left, or if the thread
/// is ending.
///
/// A thread that gets the number of an earlier thread sees all writes of the earlier thread.
#[inline]
pub(super) fn number() -> Option<usize> {
    match NUMBER.get() {
        number if number < NUMBERS => Some(number),
        NONE => None,
        _ => take(),
    }
}

#[cold]
fn take() -> Option<usize> {
    let mut free = FREE.lock();
    let number = free.returned.pop().or_else(|| {
        let next = free.next;
        free.next = (next + 1).min(NUMBERS);
        (next < NUMBERS).then_some(next)
    });
    drop(free);
    let number = match ENDING.try_with(|_| number) {
        Ok(number) => number,
        Err(_) => {
            // The thread is ending, and could not release the number later. So the number is
            // released now, and the thread gets none.
            FREE.lock().returned.extend(number);
            None
        }
    };
    NUMBER.set(number.unwrap_or(NONE));
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    #[test]
    fn live_threads_have_distinct_numbers_which_are_reused_when_they_end() {
        for _ in 0..NUMBERS {
            let together = Barrier::new(4);
            let numbers: BTreeSet<usize> = std::thread::scope(|scope| {
                let ask = || {
                    let number = number();
                    together.wait();
                    number
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(numbers.len(), 4, "{numbers:?}");
        }
    }
}
