//! A shared pointer that readers follow without counting.

#![expect(unsafe_code, reason = "readers borrow from a pointer that is replaced under them")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::atomic::{AtomicPtr, Ordering};
use super::{Guard, pin, retire};

/// An `Option<Arc<T>>` that can be replaced while others read it.
///
/// Reading under a [`Guard`] writes nothing that other threads read: no reference is counted. What
/// is replaced is retired, so its reference is given up by a later [`collect`](super::collect),
/// never inside a reader and never by the one who replaces it. All of it is safe to call from any
/// thread.
pub struct EpochCell<T: Send + Sync + 'static> {
    /// Null, or a pointer from `Arc::into_raw` whose reference the cell owns.
    pointer: AtomicPtr<T>,
    owner: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> EpochCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: Option<Arc<T>>) -> Self {
        Self { pointer: AtomicPtr::new(into_pointer(value)), owner: PhantomData }
    }

    /// What the cell holds, for as long as the guard lives, whatever becomes of the cell meanwhile.
    #[inline]
    pub fn load<'g>(&self, _guard: &'g Guard) -> Option<Held<'g, T>> {
        // What is found owns a reference, which is given up only by an object retired after the
        // pointer was unlinked, and so not before `_guard` is gone, which entered before this load.
        let pointer = NonNull::new(self.pointer.load(Ordering::Acquire))?;
        Some(Held { pointer, guard: PhantomData })
    }

    /// A counted reference to what the cell holds.
    pub fn load_arc(&self) -> Option<Arc<T>> {
        let guard = pin();
        self.load(&guard).map(Held::to_arc)
    }

    /// Replaces what the cell holds and retires it.
    pub fn store(&self, value: Option<Arc<T>>) {
        if let Some(old) = self.exchange(value) {
            retire(old);
        }
    }

    /// Replaces what the cell holds, retires that reference, and answers another one to it.
    pub fn swap(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let old = self.exchange(value)?;
        retire(Arc::clone(&old));
        Some(old)
    }

    /// Replaces the pointer. What comes back must be retired: readers may be looking at it.
    fn exchange(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let old = self.pointer.swap(into_pointer(value), Ordering::AcqRel);
        // SAFETY: a pointer that is not null is from `Arc::into_raw`, and the swap took its one
        // reference out.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }
}

/// What a cell held when it was loaded, kept by the guard it was loaded under.
pub struct Held<'g, T> {
    /// From `Arc::into_raw`, with its provenance: that of a `&T` would not reach the counts that
    /// stand beside the value. The reference that the cell owned when it was loaded stays while
    /// the guard lives.
    pointer: NonNull<T>,
    guard: PhantomData<&'g T>,
}

// SAFETY: it gives out `&T` and, of a cell, whose `T` may be shared and sent, `Arc<T>`. The guard
// stays with its thread, and outlives whatever borrows from it in another.
unsafe impl<T: Send + Sync> Send for Held<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Held<'_, T> {}

impl<'g, T> Held<'g, T> {
    /// The same, for as long as the guard lives.
    #[inline]
    pub fn get(self) -> &'g T {
        // SAFETY: the value is kept by a reference that stays while the guard lives, for 'g.
        unsafe { self.pointer.as_ref() }
    }

    /// A reference that outlives the guard.
    pub fn to_arc(self) -> Arc<T> {
        let pointer = self.pointer.as_ptr();
        // SAFETY: only `EpochCell::load` makes a `Held`, of a pointer from `Arc::into_raw` whose
        // reference the cell, or the object retired for it, owns while the guard lives; adding one
        // makes the `Arc` that is returned.
        unsafe {
            Arc::increment_strong_count(pointer);
            Arc::from_raw(pointer)
        }
    }
}

impl<T> Clone for Held<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Held<'_, T> {}

impl<T> std::ops::Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(self.get()).finish()
    }
}

impl<T: Send + Sync + 'static> Drop for EpochCell<T> {
    /// Retires what the cell holds: a reader's borrow is bound to its guard, not to the cell.
    fn drop(&mut self) {
        self.store(None);
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for EpochCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EpochCell").field(&self.load(&pin())).finish()
    }
}

fn into_pointer<T>(value: Option<Arc<T>>) -> *mut T {
    value.map_or(ptr::null_mut(), |value| Arc::into_raw(value).cast_mut())
}
