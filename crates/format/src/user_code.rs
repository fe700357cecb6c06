//! Records which user-defined object's code panicked.
//!
//! A panic does not identify the object whose code caused it. So calls of comparators, merge
//! operators, prefix extractors and compaction filters go through [`call`]: if a call unwinds, the
//! object's name is kept in thread-local storage for the code that converts the panic to an error.
//!
//! A call that returns normally has no extra cost.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Calls code of a user-defined object; `kind` is its kind, such as "comparator". If it panics,
/// `name` is called for the object's name, and the panic continues.
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

/// Returns the object whose code panicked in this thread since [`forget_panicked`]: "comparator
/// 'name'".
pub fn panicked() -> Option<String> {
    // Inaccessible while the thread exits; the object's name is then unknown.
    let kept = PANICKED.try_with(Cell::take).ok().flatten()?;
    let _ = PANICKED.try_with(|slot| slot.set(Some(kept.clone())));
    Some(kept)
}

/// Discards the record of an earlier panic in this thread.
pub fn forget_panicked() {
    let _ = PANICKED.try_with(Cell::take);
}

/// Records a name when it is dropped because its call unwinds.
struct Naming<'a, N: FnOnce() -> &'a str> {
    kind: &'static str,
    name: Option<N>,
}

impl<'a, N: FnOnce() -> &'a str> Drop for Naming<'a, N> {
    #[cold]
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        // The function that returns the name is also user code, and a panic must not escape from
        // this drop.
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
