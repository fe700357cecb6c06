//! Memory of cached values: slots in size classes, in regions that are released to the system.
//!
//! A cache replaces its contents continuously, and the thread that inserts a value is seldom the
//! one that drops it. An allocator with per-thread heaps would keep freed memory for the thread
//! that allocated it. Here all threads share the free memory.
//!
//! # Layout
//!
//! A region of [`REGION`] bytes is cut into slots of one size. There are 16 sizes per power of two,
//! so a slot above [`SLOT_MIN`] is at most 1/16 larger than its contents. An allocation above
//! [`SLOT_MAX`] is a mapping of its own. An empty region is released to the system, and may be cut
//! into slots of another size later. The free pages of a region that is at most three quarters full
//! are released, too. Both happen before a new region is added, and in [`Slabs::release`], after
//! dropped slots were reclaimed. So memory in use exceeds the contents by the slots that were
//! dropped but not yet reclaimed, by up to a quarter of each region, and by free slots in partly
//! used pages. Address space is kept until the slabs and all slots are dropped.
//!
//! # Threads
//!
//! Taking a slot takes the lock of the slot's size. Foreground inserts take this lock, so a
//! low-priority thread must not take a slot. Dropping a slot pushes it on a stack of its size,
//! without a lock; unmapping a large allocation takes a lock in the kernel. A thread that finds no
//! free slot of a size reclaims dropped slots of that size. A thread that needs a new region first
//! reclaims some dropped slots of every size. [`Slabs::release`] reclaims all dropped slots.
//!
//! The scheme (slots of equal size in aligned slabs) is that of J. Bonwick, "The Slab Allocator",
//! USENIX Summer 1994.

#![expect(unsafe_code, reason = "slots are cut from mapped memory and returned by any thread")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tailwater_io::buffer::poison::{poison, unpoison};
use tailwater_io::buffer::{Pages, page_size};
use tailwater_io::sync::Mutex;

use crate::epoch::atomic::{AtomicPtr, Ordering};

/// Size and alignment of a region, in bytes.
pub(crate) const REGION: usize = 1 << 20;
/// Size of one mapping of address space, in bytes. Regions are parts of it.
const CHUNK: usize = 64 << 20;
/// Size of the smallest slot, in bytes. A power of two.
pub(crate) const SLOT_MIN: usize = 512;
/// Size of the largest slot, in bytes: 1/8 of a region. A power of two.
const SLOT_MAX: usize = 128 << 10;
/// Number of slot sizes per power of two; this number itself is a power of two.
const STEPS: usize = 16;
/// Number of slot sizes: the smallest, and [`STEPS`] for each doubling up to the largest.
const SIZES: usize = 1 + (SLOT_MAX / SLOT_MIN).ilog2() as usize * STEPS;
/// Maximum number of dropped slots reclaimed under one holding of a lock.
const PIECE: usize = 32;
/// Before a new region is added, dropped slots of every size are reclaimed: for each size, at most
/// PIECES times [`PIECE`] slots. For slots of 4 KiB, this is as many slots as a region has, so that
/// reclaiming keeps up when block sizes change.
const PIECES: usize = 8;
/// The free pages of a region are released if at least 1/SPARSE_PART of its slots are free.
const SPARSE_PART: usize = 4;
/// A region is trimmed only if its number of used slots has fallen by at least 1/AGAIN_PART of all
/// its slots, from the maximum since it was last trimmed.
const AGAIN_PART: usize = 16;
/// Maximum number of sparse regions to trim before a new region is added.
const TRIMS: usize = 2;

/// Returns the index of the smallest slot size that holds `bytes`; `None` if no slot is that large.
fn size_index(bytes: usize) -> Option<usize> {
    if bytes <= SLOT_MIN {
        return Some(0);
    }
    let last = bytes - 1;
    let power = last.ilog2();
    let step = (last >> (power - STEPS.ilog2())) % STEPS;
    let index = 1 + (power - SLOT_MIN.ilog2()) as usize * STEPS + step;
    (index < SIZES).then_some(index)
}

/// Returns the slot size number `index`, counted from 0 for the smallest, in bytes: a multiple of
/// 32.
fn slot_bytes(index: usize) -> usize {
    let Some(steps) = index.checked_sub(1) else { return SLOT_MIN };
    ((STEPS + steps % STEPS + 1) * SLOT_MIN / STEPS) << (steps / STEPS)
}

/// Allocator of cached values. Any thread may use it; see the module for locks.
pub(crate) struct Slabs {
    sizes: Box<[Size]>,
    space: Mutex<Space>,
}

/// All slots of one size. This struct has cache lines of its own, since every thread that drops a
/// slot writes to it.
#[repr(align(128))]
struct Size {
    /// Slot size, in bytes.
    slot: usize,
    /// Dropped slots not yet reclaimed.
    returned: ReturnedStack,
    /// Number of slots that hold a value.
    held: AtomicUsize,
    regions: Mutex<Regions>,
}

/// The contents of a dropped slot while it is on a [`ReturnedStack`]: a link to the next slot.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) next: *mut Returned,
}

/// A lock-free stack of dropped slots. Slots are pushed one by one, but all are taken together.
#[derive(Debug)]
pub(super) struct ReturnedStack(AtomicPtr<Returned>);

impl ReturnedStack {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Pushes a slot.
    ///
    /// # Safety
    /// The slot is large enough and aligned for a [`Returned`], and the caller owns it exclusively.
    pub(super) unsafe fn push(&self, slot: NonNull<Returned>) {
        let mut next = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the slot is large enough, and the caller owns it exclusively until the
            // exchange succeeds.
            unsafe { slot.write(Returned { next }) };
            // Pairs with the Acquire in `take_all`. The thread that takes the slots sees this
            // write. That thread writes to the slot only after this thread has finished reading the
            // value that was in the slot.
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            match self.0.compare_exchange_weak(next, slot.as_ptr(), success, failure) {
                Ok(_) => return,
                Err(others) => next = others,
            }
        }
    }

    /// Takes all slots off the stack. Returns the first, which links to the others; null if there
    /// is none.
    pub(super) fn take_all(&self) -> *mut Returned {
        // Pairs with the Release in `push`.
        self.0.swap(ptr::null_mut(), Ordering::Acquire)
    }
}

/// All regions that are cut into slots of one size.
#[derive(Default)]
struct Regions {
    /// All regions with slots of this size, by address.
    all: BTreeMap<usize, Cut>,
    /// Addresses of the regions with free slots.
    open: BTreeSet<usize>,
    /// Dropped slots that were taken off the [`ReturnedStack`] and are not yet marked as free in
    /// their regions.
    returned: Chain,
    /// Sum of `resident` of the regions.
    resident: usize,
}

/// A list of dropped slots: its first slot, or null.
struct Chain(*mut Returned);

impl Default for Chain {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}

// SAFETY: the owner of the list owns its slots exclusively, and slots may be sent between threads.
unsafe impl Send for Chain {}

/// A region that is cut into slots.
struct Cut {
    region: Region,
    /// One bit for each slot, set if the slot is free.
    free: Box<[u64]>,
    used: usize,
    /// Maximum of `used` since the region's free pages were last released to the system.
    most_used: usize,
    /// About how many bytes of the region are in memory: those of the slots in use, and of free
    /// slots that were used since their pages were last released.
    resident: usize,
    /// Whether the region's free pages are being released. While they are, no slot is taken from
    /// the region, and the region is not removed.
    is_being_trimmed: bool,
}

/// A region's memory.
struct Region(NonNull<u8>);

// SAFETY: the owner of a `Region` has exclusive access to the region's memory, except for slots in
// use. Slots in use belong to the entries that took them.
unsafe impl Send for Region {}

/// The mapped address space.
#[derive(Default)]
struct Space {
    /// The mappings of which the regions are parts. They are unmapped when the allocator and all
    /// slots taken from it have been dropped.
    chunks: Vec<Pages>,
    /// Regions without physical memory, by address.
    empty: BTreeMap<usize, Region>,
}

impl Slabs {
    /// Creates an allocator without memory.
    pub(crate) fn new() -> Arc<Self> {
        let size = |index| Size {
            slot: slot_bytes(index),
            returned: ReturnedStack::new(),
            held: AtomicUsize::new(0),
            regions: Mutex::default(),
        };
        Arc::new(Self { sizes: (0..SIZES).map(size).collect(), space: Mutex::default() })
    }

    /// Copies bytes into a slot or, if they are too long for a slot, into a mapping of their own.
    /// Returns `None` if the system has no memory, or the bytes are longer than 4 GiB.
    pub(crate) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Option<SlabBytes> {
        let length = u32::try_from(bytes.len()).ok()?;
        let index = size_index(bytes.len());
        let start = match index {
            Some(index) => {
                let start = self.take(index)?;
                self.sizes[index].held.fetch_add(1, Ordering::Relaxed);
                start
            }
            None => {
                let pages = Pages::map(bytes.len(), 1)?;
                pages.avoid_huge_pages();
                pages.leak()
            }
        };
        unpoison(start, bytes.len());
        // SAFETY: the memory is at least as long as `bytes`, and this thread owns it exclusively.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        let index = index.unwrap_or(SIZES) as u32;
        Some(SlabBytes { start, length, index, slabs: Arc::clone(self) })
    }

    /// Takes a free slot of the size with this index. If none is free, reclaims dropped slots, and
    /// then adds a region.
    fn take(&self, index: usize) -> Option<NonNull<u8>> {
        let size = &self.sizes[index];
        let mut taken = size.regions.lock().take(size.slot);
        let mut is_more = true;
        while taken.is_none() && is_more {
            (taken, is_more) = self.reclaim(size, |regions| regions.take(size.slot));
        }
        if taken.is_some() {
            return taken;
        }
        for size in &self.sizes {
            let _ = (0..PIECES).take_while(|_| self.reclaim(size, |_| ()).1).count();
        }
        self.trim(TRIMS);
        let taken = size.regions.lock().take(size.slot);
        if taken.is_some() {
            return taken;
        }
        let region = self.space.lock().take()?;
        let mut regions = size.regions.lock();
        regions.add(region, size.slot);
        regions.take(size.slot)
    }

    /// Reclaims at most [`PIECE`] dropped slots of a size, and calls `then` while the lock is still
    /// held. Returns the result of `then`, and whether more dropped slots may be left.
    fn reclaim<T>(&self, size: &Size, then: impl FnOnce(&mut Regions) -> T) -> (T, bool) {
        let mut empty = Vec::new();
        let mut regions = size.regions.lock();
        let is_more = regions.reclaim(size, &mut empty);
        let done = then(&mut regions);
        drop(regions);
        self.vacate(empty);
        (done, is_more)
    }

    /// Releases the memory of empty regions to the system.
    fn vacate(&self, empty: Vec<Region>) {
        for region in empty {
            // SAFETY: no slot of the region is in use, and this thread owns it exclusively.
            unsafe { Pages::release(region.0, REGION) };
            self.space.lock().empty.insert(region.0.addr().get(), region);
        }
    }

    /// Reclaims all dropped slots, and releases empty regions and the free pages of sparse ones to
    /// the system. Locks are held for a bounded number of slots at a time.
    pub(crate) fn release(&self) {
        for size in &self.sizes {
            while self.reclaim(size, |_| ()).1 {}
        }
        self.trim(usize::MAX);
    }

    /// Releases the free pages of at most `regions` sparse regions.
    fn trim(&self, mut regions: usize) {
        for size in &self.sizes {
            let mut from = 0;
            while regions > 0
                && let Some((address, is_trimmed)) = self.trim_next(size, from)
            {
                from = address + 1;
                regions -= usize::from(is_trimmed);
            }
        }
    }

    /// Finds the first region at or above the address `from` that has slots of `size` and a free
    /// one among them. If the region is sparse, releases its free pages. Returns the region's
    /// address, and whether the region was sparse.
    fn trim_next(&self, size: &Size, from: usize) -> Option<(usize, bool)> {
        let mut regions = size.regions.lock();
        let address = *regions.open.range(from..).next()?;
        let sparse = regions.begin_to_trim(address, size.slot);
        let is_sparse = sparse.is_some();
        if let Some((start, free)) = sparse {
            drop(regions);
            // What stays in memory: all but whole pages of free slots.
            let mut resident = REGION / size.slot * size.slot;
            for slots in runs(&free) {
                let page = page_size();
                let begin = (slots.start * size.slot).next_multiple_of(page);
                let end = slots.end * size.slot / page * page;
                if begin < end {
                    resident -= end - begin;
                    // SAFETY: these are whole pages of free slots, and no slot of the region is
                    // taken until trimming ends.
                    unsafe { Pages::release(start.add(begin), end - begin) };
                }
            }
            regions = size.regions.lock();
            regions.end_trimming(address, resident);
        }
        let empty = regions.take_out_if_empty(address);
        drop(regions);
        self.vacate(Vec::from_iter(empty));
        Some((address, is_sparse))
    }

    /// Returns the memory in regions that holds no value, in bytes: that of slots that were used
    /// and are now free, as far as it was not released. Takes the lock of each size.
    pub(crate) fn spare_bytes(&self) -> usize {
        let spare = |size: &Size| {
            let resident = size.regions.lock().resident;
            resident.saturating_sub(size.held.load(Ordering::Relaxed) * size.slot)
        };
        self.sizes.iter().map(spare).sum()
    }

    /// Returns the size of all regions with used slots, in bytes. Dropped slots that were not
    /// reclaimed count as used.
    #[cfg(all(not(loom), test))]
    pub(crate) fn bytes(&self) -> usize {
        self.sizes.iter().map(|size| size.regions.lock().all.len()).sum::<usize>() * REGION
    }
}

impl Regions {
    /// Takes the first free slot of a region. Among the regions that have free slots, selects the
    /// one with the lowest address.
    fn take(&mut self, slot: usize) -> Option<NonNull<u8>> {
        let address = *self.open.first()?;
        let cut = self.all.get_mut(&address)?;
        // Trimming releases the pages of all slots that were free when it began. A slot taken now
        // would lose its contents.
        assert!(!cut.is_being_trimmed, "a region that is being trimmed is open");
        let (word, bits) = cut.free.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let index = word * u64::BITS as usize + bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        cut.used += 1;
        cut.most_used = cut.most_used.max(cut.used);
        if cut.resident < cut.used * slot {
            self.resident += cut.used * slot - cut.resident;
            cut.resident = cut.used * slot;
        }
        if cut.used == REGION / slot {
            self.open.remove(&address);
        }
        // SAFETY: in `cut.free`, bits are set only for slots inside the region.
        Some(unsafe { cut.region.0.add(index * slot) })
    }

    /// Cuts a region into slots.
    fn add(&mut self, region: Region, slot: usize) {
        let slots = REGION / slot;
        let mut free = vec![u64::MAX; slots.div_ceil(u64::BITS as usize)].into_boxed_slice();
        if let Some(last) = free.last_mut() {
            *last >>= slots.next_multiple_of(u64::BITS as usize) - slots;
        }
        poison(region.0, REGION);
        let address = region.0.addr().get();
        let cut = Cut { region, free, used: 0, most_used: 0, resident: 0, is_being_trimmed: false };
        self.all.insert(address, cut);
        self.open.insert(address);
    }

    /// Marks at most [`PIECE`] dropped slots as free. Moves regions that become empty into `empty`,
    /// but keeps at least one region with free slots. Returns whether more dropped slots may be
    /// left.
    fn reclaim(&mut self, size: &Size, empty: &mut Vec<Region>) -> bool {
        for _ in 0..PIECE {
            if self.returned.0.is_null() {
                self.returned.0 = size.returned.take_all();
            }
            let Some(start) = NonNull::new(self.returned.0) else { return false };
            // SAFETY: each slot on the stack of dropped slots holds a whole `Returned`, and this
            // thread took the slots exclusively.
            self.returned.0 = unsafe { start.read() }.next;
            poison(start.cast(), size.slot);
            let address = self.mark_free(start.addr().get(), size.slot);
            if self.open.len() > 1 {
                empty.extend(self.take_out_if_empty(address));
            }
        }
        true
    }

    /// Marks a slot as free. Returns the address of its region.
    fn mark_free(&mut self, slot_address: usize, slot: usize) -> usize {
        let address = slot_address - slot_address % REGION;
        let Some(cut) = self.all.get_mut(&address) else { panic!("a slot outside all regions") };
        let index = (slot_address - address) / slot;
        let bits = u64::BITS as usize;
        // If the slot were already free, two values could later get the same memory.
        assert!(cut.free[index / bits] >> (index % bits) & 1 == 0, "a slot was returned twice");
        cut.free[index / bits] |= 1 << (index % bits);
        if cut.used == REGION / slot {
            assert!(!cut.is_being_trimmed, "a full region is being trimmed");
            self.open.insert(address);
        }
        cut.used -= 1;
        address
    }

    /// Removes and returns a region, if it is empty.
    fn take_out_if_empty(&mut self, address: usize) -> Option<Region> {
        let cut = self.all.get(&address)?;
        if cut.used > 0 || cut.is_being_trimmed {
            return None;
        }
        self.open.remove(&address);
        self.all.remove(&address).map(|cut| {
            self.resident -= cut.resident;
            cut.region
        })
    }

    /// Begins to trim a region. If the region is sparse enough, returns its start and the bits of
    /// its free slots. No slot is then taken from the region until
    /// [`end_trimming`](Self::end_trimming) is called.
    fn begin_to_trim(&mut self, address: usize, slot: usize) -> Option<(NonNull<u8>, Box<[u64]>)> {
        let cut = self.all.get_mut(&address)?;
        let slots = REGION / slot;
        let is_sparse = slots - cut.used >= slots.div_ceil(SPARSE_PART);
        let is_worth_it = cut.most_used - cut.used >= slots.div_ceil(AGAIN_PART);
        if !is_sparse || !is_worth_it || cut.used == 0 {
            return None;
        }
        assert!(!cut.is_being_trimmed, "a region is being trimmed twice");
        self.open.remove(&address);
        (cut.most_used, cut.is_being_trimmed) = (cut.used, true);
        Some((cut.region.0, cut.free.clone()))
    }

    /// Ends trimming. `resident` is the number of bytes of the region that were not released.
    fn end_trimming(&mut self, address: usize, resident: usize) {
        if let Some(cut) = self.all.get_mut(&address) {
            cut.is_being_trimmed = false;
            let resident = resident.min(cut.resident);
            self.resident -= cut.resident - resident;
            cut.resident = resident;
            self.open.insert(address);
        }
    }
}

/// Returns the runs of set bits, as ranges of bit indexes.
fn runs(bits: &[u64]) -> impl Iterator<Item = Range<usize>> {
    let is_set = |at: usize| bits[at / 64] >> (at % 64) & 1 == 1;
    let end = bits.len() * 64;
    let mut from = 0;
    iter::from_fn(move || {
        let begin = (from..end).find(|&at| is_set(at))?;
        from = (begin..end).find(|&at| !is_set(at)).unwrap_or(end);
        Some(begin..from)
    })
}

impl Space {
    /// Takes the empty region with the lowest address; `None` if the system has no more memory.
    fn take(&mut self) -> Option<Region> {
        if self.empty.is_empty() {
            let chunk = Pages::map(CHUNK, REGION)?;
            chunk.avoid_huge_pages();
            for offset in (0..CHUNK).step_by(REGION) {
                // SAFETY: the offset is inside the chunk.
                let start = unsafe { chunk.start().add(offset) };
                self.empty.insert(start.addr().get(), Region(start));
            }
            self.chunks.push(chunk);
        }
        Some(self.empty.pop_first()?.1)
    }
}

impl Drop for Space {
    /// Unpoisons the address space for AddressSanitizer, because the system may map it for other
    /// uses.
    fn drop(&mut self) {
        for chunk in &self.chunks {
            unpoison(chunk.start(), chunk.length());
        }
    }
}

impl fmt::Debug for Slabs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slabs").finish_non_exhaustive()
    }
}

/// Bytes in a slot or in a mapping of their own. Dropping them takes none of the slabs' locks.
pub(crate) struct SlabBytes {
    start: NonNull<u8>,
    slabs: Arc<Slabs>,
    /// Number of bytes stored.
    length: u32,
    /// Index of the slot size. Equal to the number of slot sizes ([`SIZES`]) if the bytes have a
    /// mapping of their own.
    index: u32,
}

// SAFETY: the bytes own their memory exclusively until they are dropped, as a `Vec` does.
unsafe impl Send for SlabBytes {}
// SAFETY: a shared reference gives access to shared slices only.
unsafe impl Sync for SlabBytes {}

impl SlabBytes {
    /// Returns the address of the slot; `None` if the bytes have a mapping of their own.
    pub(crate) fn slot_address(&self) -> Option<usize> {
        ((self.index as usize) < SIZES).then(|| self.start.addr().get())
    }

    /// Returns the size of the slot or mapping, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        match self.slabs.sizes.get(self.index as usize) {
            Some(size) => size.slot,
            None => self.len().next_multiple_of(page_size()),
        }
    }
}

impl Deref for SlabBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `copy` wrote this many bytes when it took the memory, and `self` owns the memory
        // exclusively.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }
}

impl Drop for SlabBytes {
    fn drop(&mut self) {
        match self.slabs.sizes.get(self.index as usize) {
            Some(size) => {
                poison(self.start, size.slot);
                unpoison(self.start, size_of::<Returned>());
                size.held.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: the slot is larger than a `Returned`, aligned to 32 bytes, and no longer
                // used for the value.
                unsafe { size.returned.push(self.start.cast()) }
            }
            // SAFETY: these pages were mapped for the value alone, and nothing else refers to them.
            None => drop(unsafe { Pages::from_leaked(self.start, self.len()) }),
        }
    }
}

impl fmt::Debug for SlabBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabBytes").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(all(not(loom), test))]
mod tests;
