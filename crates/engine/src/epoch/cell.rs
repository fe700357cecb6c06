//! A shared pointer whose value readers use without changing its reference count.

#![expect(unsafe_code, reason = "readers borrow from a pointer that is replaced under them")]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::atomic::{AtomicPtr, Ordering};
use super::{Bin, Guard, pin};

/// An `Option<Arc<T>>` that can be replaced while others read it.
///
/// Reading under a [`Guard`] changes no reference count, and so writes nothing that other threads
/// read. Replacing a value retires the old one: a later [`collect`](super::Garbage::collect) drops
/// the cell's reference to it. Readers never drop this reference, and neither does the replacement
/// itself. Thread-safe.
pub(crate) struct EpochCell<T: Send + Sync + 'static> {
    /// Null, or a pointer from `Arc::into_raw` whose reference the cell owns.
    pointer: AtomicPtr<T>,
    bin: Bin,
    owner: PhantomData<Arc<T>>,
}

impl<T: Send + Sync + 'static> Default for EpochCell<T> {
    fn default() -> Self {
        Self::new(None)
    }
}

impl<T: Send + Sync + 'static> EpochCell<T> {
    /// Creates a cell that holds `value` and belongs to no database.
    pub(crate) fn new(value: Option<Arc<T>>) -> Self {
        Self::in_bin(Bin::default(), value)
    }

    /// Creates a cell that holds `value`, and retires values into `bin`.
    pub(crate) fn in_bin(bin: Bin, value: Option<Arc<T>>) -> Self {
        Self { pointer: AtomicPtr::new(into_pointer(value)), bin, owner: PhantomData }
    }

    /// Returns the value, which stays valid while the guard lives, even if the cell is changed.
    #[inline]
    pub(crate) fn load<'g>(&self, _guard: &'g Guard) -> Option<Held<'g, T>> {
        // The reference behind the pointer is dropped only through an object that was retired after
        // the pointer was unlinked. `_guard` entered before this load, so the drop waits for
        // `_guard`.
        let pointer = NonNull::new(self.pointer.load(Ordering::Acquire))?;
        Some(Held { pointer, guard: PhantomData })
    }

    /// Returns a counted reference to the value.
    pub(crate) fn load_arc(&self) -> Option<Arc<T>> {
        let guard = pin();
        self.load(&guard).map(Held::to_arc)
    }

    /// Replaces the value, and retires the old one.
    pub(crate) fn store(&self, value: Option<Arc<T>>) {
        self.store_in(&self.bin, value);
    }

    /// Replaces the value, and retires the old one into `bin` instead of the cell's own bin.
    pub(crate) fn store_in(&self, bin: &Bin, value: Option<Arc<T>>) {
        if let Some(old) = self.exchange(value) {
            bin.retire(old);
        }
    }

    /// Empties a cell that is about to be dropped. Releases its value into the bin that `bin_of`
    /// returns for the value, instead of the cell's own bin.
    pub(crate) fn release_by(&mut self, bin_of: impl FnOnce(&T) -> &Bin) {
        if let Some(old) = self.exchange(None) {
            let bin = bin_of(&old).clone();
            bin.release(old);
        }
    }

    /// Replaces the pointer. The caller must retire the returned value, because readers may still
    /// use it.
    fn exchange(&self, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let old = self.pointer.swap(into_pointer(value), Ordering::AcqRel);
        // SAFETY: a pointer that is not null is from `Arc::into_raw`, and the swap took the cell's
        // only reference to the value.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }
}

/// An `Arc<T>` that can be replaced while others read it: an [`EpochCell`] that is never empty.
pub(crate) struct FullEpochCell<T: Send + Sync + 'static>(EpochCell<T>);

impl<T: Send + Sync + 'static> FullEpochCell<T> {
    /// Creates a cell that holds `value`, and retires values into `bin`.
    pub(crate) fn in_bin(bin: Bin, value: Arc<T>) -> Self {
        Self(EpochCell::in_bin(bin, Some(value)))
    }

    /// Returns the value, which stays valid while the guard lives, even if the cell is changed.
    #[inline]
    pub(crate) fn load<'g>(&self, _guard: &'g Guard) -> Held<'g, T> {
        let pointer = self.0.pointer.load(Ordering::Acquire);
        // SAFETY: while the cell can be loaded, only `in_bin` and `store` set the pointer, and both
        // set it to the pointer of an `Arc`, which is not null. For the lifetime see
        // `EpochCell::load`.
        let pointer = unsafe { NonNull::new_unchecked(pointer) };
        Held { pointer, guard: PhantomData }
    }

    /// Returns a counted reference to the value.
    pub(crate) fn load_arc(&self) -> Arc<T> {
        let guard = pin();
        self.load(&guard).to_arc()
    }

    /// Replaces the value, and retires the old one.
    pub(crate) fn store(&self, value: Arc<T>) {
        self.0.store(Some(value));
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for FullEpochCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The value that a cell held when it was loaded, kept alive by the guard under which it was
/// loaded.
pub(crate) struct Held<'g, T> {
    /// A pointer from `Arc::into_raw`, which may access the value and the reference counts next to
    /// it. A pointer made from a `&T` must not access the counts. The cell owned a reference to the
    /// value when this `Held` was loaded. That reference is not dropped while the guard lives.
    pointer: NonNull<T>,
    guard: PhantomData<&'g T>,
}

// SAFETY: a `Held` gives out `&T` and, if it was loaded from a cell, `Arc<T>`; the cell requires
// that `T` may be shared and sent. The guard is not part of the `Held`. The guard stays with the
// thread that pinned, and outlives everything that another thread borrows through the `Held`.
unsafe impl<T: Send + Sync> Send for Held<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Send + Sync> Sync for Held<'_, T> {}

impl<'g, T> Held<'g, T> {
    /// Returns a reference that lives as long as the guard.
    #[inline]
    pub(crate) fn get(self) -> &'g T {
        // SAFETY: the guard lives at least for 'g. While it lives, some reference to the value is
        // not dropped, and this reference keeps the value alive.
        unsafe { self.pointer.as_ref() }
    }

    /// Returns a reference that outlives the guard.
    pub(crate) fn to_arc(self) -> Arc<T> {
        let pointer = self.pointer.as_ptr();
        // SAFETY: only the cells' `load` makes a `Held`, from a pointer of `Arc::into_raw`. While
        // the guard lives, the reference of this pointer is owned by the cell or, after the value
        // was replaced, by the retired object that will drop the reference. The returned `Arc` owns
        // the reference added here.
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
    /// Releases the value rather than dropping it: a reader may still use it, since its guard may
    /// outlive the cell.
    fn drop(&mut self) {
        if let Some(old) = self.exchange(None) {
            self.bin.release(old);
        }
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
