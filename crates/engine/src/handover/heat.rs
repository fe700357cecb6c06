//! Which parts of a table users read lately.
//!
//! A table has a bit for each of its regions. A user's read that the block cache could not answer
//! sets the bit of the region that its block begins in, if it is clear. Bits are kept for two
//! generations, the current one and the one before: what was read in either is hot. A generation
//! ends after a while, and when as much was found hot as there is memory for; so what is hot is a
//! guess at what memory holds.
//!
//! What was handed over is marked until it is read. The generations keep account of how much was
//! handed over and how much of that was read. Handing over is judged by what was handed over before
//! the current generation, so that users had time to read it; with each that ends, what lies
//! further back counts half as much.
//!
//! # Threads
//! Any thread may do anything. Nothing takes a lock; a bit that is set while its map is being
//! cleared for a new generation may be lost, and the next read sets it again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::WarmBlock;

/// A generation ends after so long, in nanoseconds.
const GENERATION_NS: u64 = 60_000_000_000;
/// Regions of a small table have so many bytes, as a power of two.
const SMALLEST_REGION: u32 = 12;
/// The largest.
const LARGEST_REGION: u32 = 16;
/// Handing over is judged once so many bytes were handed over.
const ENOUGH_HANDED_OVER: u64 = 16 << 20;
/// It is worth it where at least one byte in so many is read.
const READ_PART: u64 = 8;
/// Regions grow before a table has more than so many.
const REGIONS_WANTED: u64 = 1 << 15;

/// The generations of all tables of a database.
#[derive(Debug)]
pub(crate) struct Generations {
    current: AtomicU32,
    /// How much was found hot in the current one, in bytes.
    found: AtomicU64,
    /// How much there is memory for, in bytes.
    limit: u64,
    began_ns: AtomicU64,
    /// How many bytes were handed over, and how many of those were read.
    handed_over: Account,
    read: Account,
}

/// A sum over generations.
#[derive(Debug, Default)]
struct Account {
    now: AtomicU64,
    before: AtomicU64,
}

impl Account {
    fn add(&self, bytes: u64) {
        self.now.fetch_add(bytes, Relaxed);
    }

    /// The current generation ends. What others add meanwhile is of either.
    fn end(&self) {
        let now = self.now.swap(0, Relaxed);
        self.before.store(self.before.load(Relaxed) / 2 + now, Relaxed);
    }
}

impl Generations {
    /// The first, where there is memory for so many bytes.
    pub(crate) fn new(limit: u64) -> Self {
        // Neither it nor the one before is what maps begin with.
        let current = AtomicU32::new(2);
        Self {
            current,
            found: AtomicU64::new(0),
            limit,
            began_ns: AtomicU64::new(0),
            handed_over: Account::default(),
            read: Account::default(),
        }
    }

    /// Ends the current one if it has gone on for long enough.
    pub(crate) fn pass(&self, now_ns: u64) {
        let began_ns = self.began_ns.load(Relaxed);
        // The clock may begin anywhere.
        let is_first = began_ns == 0;
        let is_over = is_first || now_ns.saturating_sub(began_ns) >= GENERATION_NS;
        let is_ours = || self.began_ns.compare_exchange(began_ns, now_ns, Relaxed, Relaxed).is_ok();
        if is_over && is_ours() && !is_first {
            self.end(self.current.load(Relaxed));
        }
    }

    fn find(&self, bytes: u64) {
        if self.found.fetch_add(bytes, Relaxed) + bytes >= self.limit {
            self.end(self.current.load(Relaxed));
        }
    }

    fn end(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        if self.current.compare_exchange(generation, next, Relaxed, Relaxed).is_ok() {
            self.found.store(0, Relaxed);
            self.handed_over.end();
            self.read.end();
        }
    }

    /// Whether enough is read of what was handed over; until that can be told, it is.
    pub(crate) fn is_worth_it(&self) -> bool {
        let handed_over = self.handed_over.before.load(Relaxed);
        let read = self.read.before.load(Relaxed) + self.read.now.load(Relaxed);
        handed_over < ENOUGH_HANDED_OVER || read >= handed_over / READ_PART
    }
}

/// Which regions of a table are hot.
#[derive(Debug)]
pub(crate) struct Heat {
    generations: Arc<Generations>,
    region: u32,
    regions: u64,
    /// `None` until something is.
    maps: OnceLock<Maps>,
}

#[derive(Debug)]
struct Maps {
    /// By the generation's last bit: which it is of, and its bits.
    of_generations: [(AtomicU32, Bits); 2],
    /// What was handed over, and not read since.
    handed_over: Bits,
}

impl Heat {
    /// That of a table of so many bytes, of which nothing was read.
    pub(crate) fn new(generations: Arc<Generations>, bytes: u64) -> Self {
        let is_enough = |region: &u32| bytes >> *region <= REGIONS_WANTED;
        let region = (SMALLEST_REGION..LARGEST_REGION).find(is_enough).unwrap_or(LARGEST_REGION);
        Self { generations, region, regions: (bytes >> region) + 1, maps: OnceLock::new() }
    }

    /// Notes that a user read the block at an offset. Answers whether it was handed over and is
    /// read for the first time since.
    pub(crate) fn touch(&self, offset: u64) -> bool {
        let maps = self.maps();
        let region = offset >> self.region;
        if !maps.of(self.generations.current.load(Relaxed)).set(region) {
            return false;
        }
        self.generations.find(1 << self.region);
        let is_first = maps.handed_over.clear(region);
        if is_first {
            self.generations.read.add(1 << self.region);
        }
        is_first
    }

    /// Whether users read the block at an offset lately.
    pub(crate) fn is_hot(&self, offset: u64) -> bool {
        let Some(maps) = self.maps.get() else { return false };
        let (region, current) = (offset >> self.region, self.generations.current.load(Relaxed));
        [current, current.wrapping_sub(1)].into_iter().any(|generation| {
            let (of, bits) = &maps.of_generations[(generation & 1) as usize];
            of.load(Relaxed) == generation && bits.has(region)
        })
    }

    /// Takes these blocks for hot, as those were that they come from: until the next generation, if
    /// nobody reads them.
    pub(crate) fn inherit(&self, blocks: &[WarmBlock]) {
        if blocks.is_empty() {
            return;
        }
        let maps = self.maps();
        let before = maps.of(self.generations.current.load(Relaxed).wrapping_sub(1));
        let mut handed_over = 0;
        for WarmBlock { offset, is_paged_only } in blocks {
            let region = offset >> self.region;
            before.set(region);
            handed_over += u64::from(*is_paged_only && maps.handed_over.set(region));
        }
        self.generations.handed_over.add(handed_over << self.region);
    }

    fn maps(&self) -> &Maps {
        self.maps.get_or_init(|| {
            let bits = || Bits::new(self.regions);
            let of_generations = [(); 2].map(|()| (AtomicU32::new(0), bits()));
            Maps { of_generations, handed_over: bits() }
        })
    }
}

impl Maps {
    /// The bits of a generation: the current one, or the one before.
    fn of(&self, generation: u32) -> &Bits {
        let (of, bits) = &self.of_generations[(generation & 1) as usize];
        let known = of.load(Relaxed);
        if known != generation && of.compare_exchange(known, generation, Relaxed, Relaxed).is_ok() {
            bits.clear_all();
        }
        bits
    }
}

/// So many bits.
#[derive(Debug)]
struct Bits(Box<[AtomicU64]>);

impl Bits {
    fn new(count: u64) -> Self {
        Self((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(&self, index: u64) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(usize::try_from(index / 64).ok()?)?, 1 << (index % 64)))
    }

    /// Answers whether it was clear. One that is set is only looked at.
    fn set(&self, index: u64) -> bool {
        let Some((word, bit)) = self.word(index) else { return false };
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Answers whether it was set.
    fn clear(&self, index: u64) -> bool {
        let Some((word, bit)) = self.word(index) else { return false };
        word.load(Relaxed) & bit != 0 && word.fetch_and(!bit, Relaxed) & bit != 0
    }

    fn has(&self, index: u64) -> bool {
        self.word(index).is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    fn clear_all(&self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paged(offset: u64) -> WarmBlock {
        WarmBlock { offset, is_paged_only: true }
    }

    fn heat(limit: u64, bytes: u64) -> Heat {
        Heat::new(Arc::new(Generations::new(limit)), bytes)
    }

    #[test]
    fn what_was_read_is_hot_until_the_generation_after_the_next() {
        let heat = heat(u64::MAX, 1 << 20);
        heat.generations.pass(1);
        assert!(!heat.is_hot(8192));
        heat.touch(8200);
        assert!(heat.is_hot(8192) && !heat.is_hot(4096) && !heat.is_hot(12_288));
        heat.generations.pass(GENERATION_NS);
        assert!(heat.is_hot(8192), "the generation goes on");
        heat.generations.pass(GENERATION_NS + 1);
        heat.touch(0);
        assert!(heat.is_hot(8192) && heat.is_hot(0));
        heat.generations.pass(2 * GENERATION_NS + 1);
        assert!(!heat.is_hot(8192) && heat.is_hot(0));
        // What is read again and again stays hot.
        for round in 3..10 {
            heat.touch(0);
            heat.generations.pass(round * GENERATION_NS + 1);
            assert!(heat.is_hot(0));
        }
    }

    #[test]
    fn a_generation_ends_when_memory_is_full_of_it() {
        let heat = heat(4 * 4096, 1 << 20);
        (0..6).for_each(|region| assert!(!heat.touch(region * 4096)));
        assert!((0..6).all(|region| heat.is_hot(region * 4096)));
        // Read again nothing new is found.
        (4..6).for_each(|region| assert!(!heat.touch(region * 4096)));
        assert!(heat.is_hot(0));
        (6..9).for_each(|region| assert!(!heat.touch(region * 4096)));
        let hot: Vec<u64> = (0..9).filter(|region| heat.is_hot(region * 4096)).collect();
        assert_eq!(hot, [4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_is_handed_over_is_hot_for_a_generation_and_told_when_it_is_read() {
        let heat = heat(u64::MAX, 1 << 20);
        heat.inherit(&[4096, 40_960].map(paged));
        assert!(heat.is_hot(4096) && heat.is_hot(40_960) && !heat.is_hot(0));
        assert!(heat.touch(4096), "handed over, and read");
        assert!(!heat.touch(4096), "read again");
        assert!(!heat.touch(0), "not handed over");
        heat.generations.pass(1);
        heat.generations.pass(GENERATION_NS + 1);
        assert!(heat.is_hot(4096) && !heat.is_hot(40_960));
    }

    #[test]
    fn handing_over_is_worth_it_until_little_is_read() {
        let heat = heat(u64::MAX, 1 << 26);
        let worth_it = || heat.generations.is_worth_it();
        let mut round = 0;
        let mut pass = || {
            heat.generations.pass(round * GENERATION_NS + 1);
            round += 1;
        };
        pass();
        let regions = (2 * ENOUGH_HANDED_OVER) >> SMALLEST_REGION;
        let blocks: Vec<u64> = (0..regions).map(|region| region << SMALLEST_REGION).collect();
        let handed: Vec<WarmBlock> = blocks.iter().copied().map(paged).collect();
        heat.inherit(&handed);
        assert!(worth_it(), "nobody had the time to read it");
        pass();
        assert!(!worth_it());
        let (first, second) = blocks.split_at(blocks.len() / 16);
        first.iter().for_each(|&block| assert!(heat.touch(block)));
        assert!(!worth_it(), "a sixteenth was read");
        second[..first.len()].iter().for_each(|&block| assert!(heat.touch(block)));
        assert!(worth_it());
        // What was read counts as long as what was handed over.
        pass();
        assert!(worth_it());
        pass();
        pass();
        assert!(worth_it(), "it is too little to judge by");
    }

    #[test]
    fn what_the_block_cache_has_is_not_judged_by_reads() {
        let heat = heat(u64::MAX, 1 << 20);
        heat.inherit(&[WarmBlock { offset: 4096, is_paged_only: false }]);
        assert!(heat.is_hot(4096) && !heat.touch(4096));
        assert_eq!(heat.generations.handed_over.now.load(Relaxed), 0);
    }

    #[test]
    fn regions_of_large_tables_are_larger_and_no_offset_is_outside() {
        for (bytes, region) in [(0, 12), (1 << 27, 12), (1 << 28, 13), (1 << 31, 16), (1 << 40, 16)]
        {
            let heat = heat(u64::MAX, bytes);
            assert_eq!(heat.region, region, "{bytes}");
            if bytes <= 1 << 31 {
                heat.touch(bytes);
                assert!(heat.is_hot(bytes));
                heat.touch(u64::MAX);
            }
        }
    }
}
