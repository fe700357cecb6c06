//! Which object of the user's panicked.
//!
//! A panic says what went wrong, but not whose code it was. So calls of comparators, merge
//! operators, prefix extractors and compaction filters go through [`call`]: where one unwinds, the
//! name of its object is kept, in that thread, for whoever makes an error of the panic.
//!
//! A call that returns costs nothing more.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
}

/// Calls code of an object of the user's, of some kind, such as "comparator". Where it panics,
/// `name` is asked for the object's name, and the panic goes on.
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

/// The object whose code panicked in this thread since [`forget_panicked`]: "comparator 'name'".
pub fn panicked() -> Option<String> {
    // Gone while the thread ends: then nobody is named.
    let kept = PANICKED.try_with(Cell::take).ok().flatten()?;
    let _ = PANICKED.try_with(|slot| slot.set(Some(kept.clone())));
    Some(kept)
}

/// Forgets what panicked before in this thread.
pub fn forget_panicked() {
    let _ = PANICKED.try_with(Cell::take);
}

/// Keeps a name when it is dropped: its call unwinds.
struct Naming<'a, N: FnOnce() -> &'a str> {
    kind: &'static str,
    name: Option<N>,
}

impl<'a, N: FnOnce() -> &'a str> Drop for Naming<'a, N> {
    #[cold]
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        // The name is the user's code, too, and a panic must not leave this.
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
    fn what_panicked_is_named_until_it_is_forgotten() {
        assert_eq!(call("comparator", || "fine", || 7), 7);
        assert_eq!(panicked(), None);
        panics(|| call("comparator", || "mine", || panic!("on purpose")));
        for _ in 0..2 {
            assert_eq!(panicked().as_deref(), Some("comparator 'mine'"));
        }
        panics(|| call("filter", || panic!("nor has it a name"), || panic!("on purpose")));
        assert_eq!(panicked().as_deref(), Some("filter '?'"));
        forget_panicked();
        assert_eq!(panicked(), None);
    }
}
