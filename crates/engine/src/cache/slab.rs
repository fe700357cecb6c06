//! Memory for what a cache holds: slots of a few sizes, in regions that go back to the system.
//!
//! A cache turns over all the time, and who puts something in is seldom who lets it go. An
//! allocator with a heap for every thread keeps what was let go of in the heap that it came from,
//! for that thread. Here all threads share what is free.
//!
//! # Layout
//!
//! [`REGION`] bytes of memory are cut into slots of one size; there are 16 sizes to a power of two,
//! so that a slot of more than [`SLOT_MIN`] is at most a 16th larger than what is in it. What is
//! larger than [`SLOT_MAX`] is a mapping of its own. A region in which nothing is any more goes
//! back to the system, and may be cut into slots of another size later; of one that is three
//! quarters full or less, the pages that have nothing do. Both happen when slots are seen to that
//! were dropped: when there is to be another region, and in [`Slabs::release`]. So memory is more
//! than what is in it by what was dropped since, by up to a quarter of each region, and by what is
//! free in pages that have something. Address space is kept for as long as anything lives.
//!
//! # Threads
//!
//! Taking a slot takes the lock of its size, which foreground inserts take: a thread of reduced
//! scheduling weight must not. Dropping one takes no lock but, for a mapping of its own, the
//! system's: it goes on a stack of its size. Whoever finds no free slot of that size takes them
//! from there; who needs another region sees to those of all sizes first, some of each; and
//! [`Slabs::release`] to all of them.
//!
//! The scheme (slots of like size in aligned slabs) is that of J. Bonwick, "The Slab Allocator",
//! USENIX Summer 1994.

#![expect(unsafe_code, reason = "memory is handed out in parts and comes back from any thread")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter;
use std::ops::{Deref, Range};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tailwater_io::buffer::poison::{poison, unpoison};
use tailwater_io::buffer::{Pages, page_size};
use tailwater_io::sync::Mutex;

use crate::epoch::atomic::{AtomicPtr, Ordering};

/// How large a region is and of what its address is a multiple, in bytes.
pub(crate) const REGION: usize = 1 << 20;
/// How much address space is asked for at a time, in bytes.
const CHUNK: usize = 64 << 20;
/// The smallest slot, in bytes. A power of two.
const SLOT_MIN: usize = 512;
/// The largest slot, in bytes: eight to a region. A power of two.
const SLOT_MAX: usize = 128 << 10;
/// So many sizes lie from one power of two to the next. A power of two.
const STEPS: usize = 16;
/// How many sizes there are: the smallest, and the steps from there.
const SIZES: usize = 1 + (SLOT_MAX / SLOT_MIN).ilog2() as usize * STEPS;
/// So many slots that were returned are seen to under a lock at a time.
const PIECE: usize = 32;
/// So often are they of each size before there is another region: as many slots as a region has of
/// 4 KiB, so that they keep up where blocks change their size.
const PIECES: usize = 8;
/// From one free slot in so many on a region's free pages go back to the system.
const SPARSE_PART: usize = 4;
/// They do so again when one slot in so many is free that was not then.
const AGAIN_PART: usize = 16;
/// Of so many regions before there is another.
const TRIMS: usize = 2;

/// Which size of slot so many bytes take; `None` if there is none so large.
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

/// How large the slots of a size are, in bytes: a multiple of 32.
fn slot_bytes(index: usize) -> usize {
    let Some(steps) = index.checked_sub(1) else { return SLOT_MIN };
    ((STEPS + steps % STEPS + 1) * SLOT_MIN / STEPS) << (steps / STEPS)
}

/// Memory for what a cache holds. Any thread may use it; see the module for locks.
pub(crate) struct Slabs {
    sizes: Box<[Size]>,
    space: Mutex<Space>,
}

/// The slots of one size. On cache lines of its own: whoever drops a slot writes to it.
#[repr(align(128))]
struct Size {
    /// In bytes.
    slot: usize,
    /// Those that were dropped and not seen to yet.
    returned: ReturnedStack,
    regions: Mutex<Regions>,
}

/// What a slot holds that was dropped.
#[derive(Debug)]
pub(super) struct Returned {
    pub(super) next: *mut Returned,
}

/// Slots that were dropped: a stack that is only ever taken as a whole. Takes no lock.
#[derive(Debug)]
pub(super) struct ReturnedStack(AtomicPtr<Returned>);

impl ReturnedStack {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Puts a slot on it.
    ///
    /// # Safety
    /// It is large enough for a [`Returned`] and aligned for one, and nobody else knows of it.
    pub(super) unsafe fn push(&self, slot: NonNull<Returned>) {
        let mut next = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: it is ours until the exchange succeeds, and as the caller says.
            unsafe { slot.write(Returned { next }) };
            // Whoever takes it sees what was written, and writes after all reads.
            let (success, failure) = (Ordering::Release, Ordering::Relaxed);
            match self.0.compare_exchange_weak(next, slot.as_ptr(), success, failure) {
                Ok(_) => return,
                Err(others) => next = others,
            }
        }
    }

    /// Takes all of it: the first, or null.
    pub(super) fn take_all(&self) -> *mut Returned {
        // What was written by those who put them there is seen.
        self.0.swap(ptr::null_mut(), Ordering::Acquire)
    }
}

/// The regions that are cut into slots of one size.
#[derive(Default)]
struct Regions {
    /// By address.
    all: BTreeMap<usize, Cut>,
    /// The addresses of those that have free slots.
    open: BTreeSet<usize>,
    /// What is left of a stack of returned slots that was taken.
    returned: Chain,
}

/// The first of a list of returned slots, or null.
struct Chain(*mut Returned);

impl Default for Chain {
    fn default() -> Self {
        Self(ptr::null_mut())
    }
}

// SAFETY: what was returned belongs to whoever has taken the list; slots are sent between threads
// anyway.
unsafe impl Send for Chain {}

/// A region that is cut into slots.
struct Cut {
    region: Region,
    /// A bit for each slot that is free.
    free: Box<[u64]>,
    used: usize,
    /// The most that were used since its free pages went back last.
    most_used: usize,
    /// Whether they are being given back. Then nobody takes a slot from it, and it stays.
    is_being_trimmed: bool,
}

/// A region's memory.
struct Region(NonNull<u8>);

// SAFETY: memory that whoever has this owns alone, apart from the slots that were given out.
unsafe impl Send for Region {}

/// The memory there is.
#[derive(Default)]
struct Space {
    /// Given back when the last slot and the slabs themselves are gone.
    chunks: Vec<Pages>,
    /// Regions that are no memory at the moment, by address.
    empty: BTreeMap<usize, Region>,
}

impl Slabs {
    /// None yet.
    pub(crate) fn new() -> Arc<Self> {
        let size = |index| Size {
            slot: slot_bytes(index),
            returned: ReturnedStack::new(),
            regions: Mutex::default(),
        };
        Arc::new(Self { sizes: (0..SIZES).map(size).collect(), space: Mutex::default() })
    }

    /// A copy of these bytes; `None` if there is no memory for it, or it is longer than 4 GiB.
    pub(crate) fn copy(self: &Arc<Self>, bytes: &[u8]) -> Option<SlabBytes> {
        let length = u32::try_from(bytes.len()).ok()?;
        let index = size_index(bytes.len());
        let start = match index {
            Some(index) => self.take(index)?,
            None => {
                let pages = Pages::map(bytes.len(), 1)?;
                pages.avoid_huge_pages();
                pages.leak()
            }
        };
        unpoison(start, bytes.len());
        // SAFETY: the memory is at least so long and nobody else knows of it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        let index = index.unwrap_or(SIZES) as u32;
        Some(SlabBytes { start, length, index, slabs: Arc::clone(self) })
    }

    /// A slot that is free from now on.
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

    /// Sees to slots of a size that were returned, [`PIECE`] at most, and then does something with
    /// its regions. Answers whether there may be more of them.
    fn reclaim<T>(&self, size: &Size, then: impl FnOnce(&mut Regions) -> T) -> (T, bool) {
        let mut empty = Vec::new();
        let mut regions = size.regions.lock();
        let is_more = regions.reclaim(size, &mut empty);
        let done = then(&mut regions);
        drop(regions);
        self.vacate(empty);
        (done, is_more)
    }

    /// Gives the memory of regions back to the system in which nothing is any more.
    fn vacate(&self, empty: Vec<Region>) {
        for region in empty {
            // SAFETY: the region has no slot that anybody knows of, and is nobody's but ours.
            unsafe { Pages::release(region.0, REGION) };
            self.space.lock().empty.insert(region.0.addr().get(), region);
        }
    }

    /// Sees to all slots that were returned by now, and gives memory back to the system in which
    /// nothing is. Locks are held for some slots at a time.
    pub(crate) fn release(&self) {
        for size in &self.sizes {
            while self.reclaim(size, |_| ()).1 {}
        }
        self.trim(usize::MAX);
    }

    /// Gives back what is free of sparse regions, of so many at most.
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

    /// Gives back what is free of the first region of a size that is open, from an address on, if
    /// it is sparse. Answers which it was, and whether it is.
    fn trim_next(&self, size: &Size, from: usize) -> Option<(usize, bool)> {
        let mut regions = size.regions.lock();
        let address = *regions.open.range(from..).next()?;
        let sparse = regions.begin_to_trim(address, size.slot);
        let is_sparse = sparse.is_some();
        if let Some((start, free)) = sparse {
            drop(regions);
            for slots in runs(&free) {
                let page = page_size();
                let begin = (slots.start * size.slot).next_multiple_of(page);
                let end = slots.end * size.slot / page * page;
                if begin < end {
                    // SAFETY: whole pages of slots that are free, and that nobody takes meanwhile.
                    unsafe { Pages::release(start.add(begin), end - begin) };
                }
            }
            regions = size.regions.lock();
            regions.end_trimming(address);
        }
        let empty = regions.take_out_if_empty(address);
        drop(regions);
        self.vacate(Vec::from_iter(empty));
        Some((address, is_sparse))
    }

    /// How much memory its regions are that have anything in them, in bytes. Slots that were
    /// returned and not seen to count.
    #[cfg(all(not(loom), test))]
    pub(crate) fn bytes(&self) -> usize {
        self.sizes.iter().map(|size| size.regions.lock().all.len()).sum::<usize>() * REGION
    }
}

impl Regions {
    /// A free slot of `slot` bytes, that with the lowest address.
    fn take(&mut self, slot: usize) -> Option<NonNull<u8>> {
        let address = *self.open.first()?;
        let cut = self.all.get_mut(&address)?;
        // Whoever trims it gives back the pages of all slots that were free when it began.
        assert!(!cut.is_being_trimmed, "a region that is being trimmed is open");
        let (word, bits) = cut.free.iter_mut().enumerate().find(|(_, bits)| **bits != 0)?;
        let index = word * u64::BITS as usize + bits.trailing_zeros() as usize;
        *bits &= *bits - 1;
        cut.used += 1;
        cut.most_used = cut.most_used.max(cut.used);
        if cut.used == REGION / slot {
            self.open.remove(&address);
        }
        // SAFETY: only slots that are inside the region have a bit.
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
        let cut = Cut { region, free, used: 0, most_used: 0, is_being_trimmed: false };
        self.all.insert(address, cut);
        self.open.insert(address);
    }

    /// Marks returned slots as free, [`PIECE`] at most, and takes out regions that are empty by
    /// that. Answers whether there may be more of them.
    fn reclaim(&mut self, size: &Size, empty: &mut Vec<Region>) -> bool {
        for _ in 0..PIECE {
            if self.returned.0.is_null() {
                self.returned.0 = size.returned.take_all();
            }
            let Some(start) = NonNull::new(self.returned.0) else { return false };
            // SAFETY: what is on the stack was put there whole, and is nobody's but ours.
            self.returned.0 = unsafe { start.read() }.next;
            poison(start.cast(), size.slot);
            let address = self.mark_free(start.addr().get(), size.slot);
            if self.open.len() > 1 {
                empty.extend(self.take_out_if_empty(address));
            }
        }
        true
    }

    /// Marks a slot as free. Answers at which address its region is.
    fn mark_free(&mut self, slot_address: usize, slot: usize) -> usize {
        let address = slot_address - slot_address % REGION;
        let Some(cut) = self.all.get_mut(&address) else { panic!("a slot of no region") };
        let index = (slot_address - address) / slot;
        let bits = u64::BITS as usize;
        // Else two would have the same memory.
        assert!(cut.free[index / bits] >> (index % bits) & 1 == 0, "a slot was returned twice");
        cut.free[index / bits] |= 1 << (index % bits);
        if cut.used == REGION / slot {
            assert!(!cut.is_being_trimmed, "a full region is being trimmed");
            self.open.insert(address);
        }
        cut.used -= 1;
        address
    }

    /// Takes a region out, if it is one in which nothing is any more.
    fn take_out_if_empty(&mut self, address: usize) -> Option<Region> {
        let cut = self.all.get(&address)?;
        if cut.used > 0 || cut.is_being_trimmed {
            return None;
        }
        self.open.remove(&address);
        self.all.remove(&address).map(|cut| cut.region)
    }

    /// Where a region is and which of its slots are free, if that has become so many that their
    /// pages are to go back. Nobody takes them until the [end](Self::end_trimming).
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

    fn end_trimming(&mut self, address: usize) {
        if let Some(cut) = self.all.get_mut(&address) {
            cut.is_being_trimmed = false;
            self.open.insert(address);
        }
    }
}

/// The runs of bits that are set.
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
    /// An empty region, that with the lowest address; `None` where the system has no more.
    fn take(&mut self) -> Option<Region> {
        if self.empty.is_empty() {
            let chunk = Pages::map(CHUNK, REGION)?;
            chunk.avoid_huge_pages();
            for offset in (0..CHUNK).step_by(REGION) {
                // SAFETY: inside the chunk.
                let start = unsafe { chunk.start().add(offset) };
                self.empty.insert(start.addr().get(), Region(start));
            }
            self.chunks.push(chunk);
        }
        Some(self.empty.pop_first()?.1)
    }
}

impl Drop for Space {
    /// What is mapped there next is somebody else's.
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

/// Bytes in memory of slabs. Dropping them takes no lock of ours.
pub(crate) struct SlabBytes {
    start: NonNull<u8>,
    slabs: Arc<Slabs>,
    /// How many bytes of it are in use.
    length: u32,
    /// Of its size; [`SIZES`] for a mapping of its own.
    index: u32,
}

// SAFETY: the memory is theirs alone until they are dropped, as a Vec's memory is.
unsafe impl Send for SlabBytes {}
// SAFETY: as above: shared, they give out shared slices only.
unsafe impl Sync for SlabBytes {}

impl SlabBytes {
    /// How much memory it is, in bytes.
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
        // SAFETY: so many bytes were written when the memory was taken, and it is theirs alone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length as usize) }
    }
}

impl Drop for SlabBytes {
    fn drop(&mut self) {
        match self.slabs.sizes.get(self.index as usize) {
            Some(size) => {
                poison(self.start, size.slot);
                unpoison(self.start, size_of::<Returned>());
                // SAFETY: the slot is larger than this, aligned to 32 bytes, and nobody's any more.
                unsafe { size.returned.push(self.start.cast()) }
            }
            // SAFETY: the pages that were mapped for it, of which nobody knows any more.
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
