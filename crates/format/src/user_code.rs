//! Records which user-defined object caused a panic.
//!
//! A panic does not identify the object whose code panicked. So calls of comparators, merge
//! operators, prefix extractors and compaction filters go through [`call`]. If a call panics,
//! [`call`] stores the object's name in thread-local storage. The code that converts the panic to
//! an error reads it there.
//!
//! A call that returns normally has no extra cost.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Calls `work`, code of a user-defined object. `kind` is the kind of the object, such as
/// "comparator". If `work` panics, the name that `name` returns is recorded, and the panic
/// continues.
#[inline]
pub fn call<'a, R>(
    kind: &'static str,
    name: impl FnOnce() -> &'a str,
    work: impl FnOnce() -> R,
) -> R {
    let naming = Naming { kind, name: Some(name) };
    let result = work();
    std::mem::forget(naming);
    result
}

/// Returns the object whose code panicked in this thread since the last [`forget_panicked`], as
/// "comparator 'name'". `None` if no such code panicked.
pub fn panicked() -> Option<String> {
    // Thread-local storage is inaccessible while the thread exits. The object's name is then
    // unknown.
    let kept = PANICKED.try_with(Cell::take).ok().flatten()?;
    let _ = PANICKED.try_with(|slot| slot.set(Some(kept.clone())));
    Some(kept)
}

/// Discards the record of an earlier panic in this thread.
pub fn forget_panicked() {
    let _ = PANICKED.try_with(Cell::take);
}

/// A guard that records the name of an object when the guard is dropped. [`call`] lets the guard
/// drop only if the object's code panics.
struct Naming<'a, N: FnOnce() -> &'a str> {
    kind: &'static str,
    name: Option<N>,
}

impl<'a, N: FnOnce() -> &'a str> Drop for Naming<'a, N> {
    #[cold]
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        // `name` is also user code and may panic. A panic must not escape from this drop.
        let name = catch_unwind(AssertUnwindSafe(name)).unwrap_or("?");
        let named = format!("{} '{name}'", self.kind);
        let _ = PANICKED.try_with(|slot| slot.set(Some(named)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panics(work: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(work)).is_err());
    }

    #[test]
    fn the_panicked_object_is_named_until_it_is_cleared() {
        assert_eq!(call("comparator", || "fine", || 7), 7);
        assert_eq!(panicked(), None);
        panics(|| call("comparator", || "mine", || panic!("on purpose")));
        for _ in 0..2 {
            assert_eq!(panicked().as_deref(), Some("comparator 'mine'"));
        }
        panics(|| call("filter", || panic!("it has no name either"), || panic!("on purpose")));
        assert_eq!(panicked().as_deref(), Some("filter '?'"));
        forget_panicked();
        assert_eq!(panicked(), None);
    }
}
