//! Values that are pinned in their blocks.
//!
//! Each has its own memory, because the program destroys them one by one. A thread reuses the
//! memory of the values it has destroyed: allocating and freeing it would cost more than everything
//! else between C and the engine.

use std::cell::Cell;
use std::ffi::c_char;
use std::{mem, ptr};

use tailwater::PinnedValue;

use crate::boundary::{entry, give_box};

/// Maximum number of destroyed values whose memory a thread keeps: enough for usual multi-gets.
const KEPT: usize = 32;

thread_local! {
    static SPARE: Spare = const { Spare::new() };
}

/// A value that is pinned in its block.
#[derive(Default)]
pub(crate) struct rocksdb_pinnableslice_t {
    /// `None` only while the memory is spare.
    value: Option<PinnedValue>,
}

impl rocksdb_pinnableslice_t {
    /// Gives a value to the caller; null for none.
    #[inline(always)]
    pub(crate) fn give(value: Option<PinnedValue>) -> *mut Self {
        if value.is_none() {
            return ptr::null_mut();
        }
        // While the thread exits, it has no spare memory.
        let mut slice = SPARE.try_with(Spare::take).ok().flatten().unwrap_or_default();
        slice.value = value;
        give_box(slice)
    }

    #[inline]
    fn destroy(mut self: Box<Self>) {
        self.value = None;
        let _ = SPARE.try_with(|spare| spare.keep(self));
    }
}

/// The memory of destroyed values.
struct Spare {
    count: Cell<usize>,
    slices: [Cell<Option<Box<rocksdb_pinnableslice_t>>>; KEPT],
}

impl Spare {
    const fn new() -> Self {
        Self { count: Cell::new(0), slices: [const { Cell::new(None) }; KEPT] }
    }

    #[inline]
    fn take(&self) -> Option<Box<rocksdb_pinnableslice_t>> {
        let last = self.count.get().checked_sub(1)?;
        self.count.set(last);
        self.slices.get(last)?.take()
    }

    #[inline]
    fn keep(&self, slice: Box<rocksdb_pinnableslice_t>) {
        let count = self.count.get();
        if let Some(place) = self.slices.get(count) {
            // The place is empty: there is nothing to drop.
            mem::forget(place.replace(Some(slice)));
            self.count.set(count + 1);
        }
    }
}

entry! {
    fn rocksdb_pinnableslice_destroy(v: own rocksdb_pinnableslice_t) {
        if let Some(slice) = v {
            slice.destroy();
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_pinnableslice_value(
        t: maybe_const rocksdb_pinnableslice_t,
        vlen: out usize,
    ) -> *const c_char {
        let value = t.and_then(|slice| slice.value.as_deref());
        vlen.set(value.map_or(0, <[u8]>::len));
        Ok(value.map_or(ptr::null(), |value| value.as_ptr().cast()))
    }
}
