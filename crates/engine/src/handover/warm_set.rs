//! The warm set: regions of tables that users read recently.
//!
//! A table has a bit per region. A user's read that misses the block cache sets the bit of the
//! region in which its block begins. Bits are kept for two generations, the current one and the
//! previous one: a region that was read in either of them is hot. A generation ends after
//! [`GENERATION_NS`], or when the regions read in it would fill the available memory; so the hot
//! regions approximate the data that memory holds.
//!
//! Regions that were handed over are marked until they are read. For each generation, two numbers
//! of bytes are counted: those handed over, and those of them that users read. Handover is judged
//! by the bytes handed over before the current generation, since users have had time to read those
//! bytes. At the end of each generation, the counts of older generations are halved.
//!
//! # Threads
//! All functions may be called from any thread, and take no lock. A bit that is set while its map
//! is being cleared for a new generation may be lost; the next read sets it again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::WarmBlock;

/// Time after which a generation ends, in nanoseconds. A generation is a period in which reads are
/// recorded for the warm set.
const GENERATION_NS: u64 = 60_000_000_000;
/// Binary logarithm of the minimum size of a region in bytes.
const SMALLEST_REGION: u32 = 12;
/// Binary logarithm of the maximum size of a region in bytes.
const LARGEST_REGION: u32 = 16;
/// Whether handover is worthwhile is judged only after at least this many bytes were handed over.
const ENOUGH_HANDED_OVER: u64 = 16 << 20;
/// Minimum share of handed-over bytes that users must read for handover to be worthwhile:
/// 1/READ_PART.
const READ_PART: u64 = 8;
/// Maximum number of regions of a table, unless its regions have the maximum size. A larger table
/// gets larger regions up to that size, and more regions beyond.
const REGIONS_WANTED: u64 = 1 << 15;

/// The current generation and its counts. All tables of a database share them.
#[derive(Debug)]
pub(crate) struct Generations {
    current: AtomicU32,
    /// Total size of the table regions that users have read since the current generation began, in
    /// bytes.
    found: AtomicU64,
    /// When `found` reaches this value, the generation ends. The value is the memory limit of the
    /// process or the size of the machine's memory, in bytes.
    limit: u64,
    began_ns: AtomicU64,
    /// Bytes handed over to the page cache but not to the block cache. `read` counts those of them
    /// that users have read.
    handed_over: Account,
    read: Account,
}

/// A count of bytes: `now` for the current generation, and `before` for the generations before it.
/// When a generation ends, `before` is halved, and `now` is added to it.
#[derive(Debug, Default)]
struct Account {
    now: AtomicU64,
    before: AtomicU64,
}

impl Account {
    fn add(&self, bytes: u64) {
        self.now.fetch_add(bytes, Relaxed);
    }

    /// Ends the current generation. A concurrent addition may count for the old generation or for
    /// the new one.
    fn end(&self) {
        let now = self.now.swap(0, Relaxed);
        self.before.store(self.before.load(Relaxed) / 2 + now, Relaxed);
    }
}

impl Generations {
    /// Starts the first generation. A generation ends when the regions read in it have a total size
    /// of `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        // The two maps of a new table have generation number 0. The first generation has number 2,
        // so these maps belong neither to it nor to the generation before it, number 1.
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

    /// Ends the current generation if it has lasted [`GENERATION_NS`] at the time `now_ns`. The
    /// first call only records the time.
    pub(crate) fn pass(&self, now_ns: u64) {
        let began_ns = self.began_ns.load(Relaxed);
        // 0 means that no call has recorded the time yet.
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

    /// Whether users read enough of the bytes handed over; true until enough bytes were handed over
    /// to judge.
    pub(crate) fn is_worth_it(&self) -> bool {
        let handed_over = self.handed_over.before.load(Relaxed);
        let read = self.read.before.load(Relaxed) + self.read.now.load(Relaxed);
        handed_over < ENOUGH_HANDED_OVER || read >= handed_over / READ_PART
    }
}

/// The hot regions of a table.
#[derive(Debug)]
pub(crate) struct HotRegions {
    generations: Arc<Generations>,
    region: u32,
    regions: u64,
    /// The maps of read regions and of handed-over regions; `None` until a region is read or handed
    /// over.
    maps: OnceLock<Maps>,
}

#[derive(Debug)]
struct Maps {
    /// Two generations, each as its number and the bits of the regions read in it. The index of a
    /// generation is its number modulo 2.
    of_generations: [(AtomicU32, Bits); 2],
    /// The regions that were handed over and not read since.
    handed_over: Bits,
}

impl HotRegions {
    /// Creates the state of a table of `bytes` bytes, without hot regions.
    pub(crate) fn new(generations: Arc<Generations>, bytes: u64) -> Self {
        let is_enough = |region: &u32| bytes >> *region <= REGIONS_WANTED;
        let region = (SMALLEST_REGION..LARGEST_REGION).find(is_enough).unwrap_or(LARGEST_REGION);
        Self { generations, region, regions: (bytes >> region) + 1, maps: OnceLock::new() }
    }

    /// Records that a user read the block at an offset. Returns whether this is the first read of
    /// the block's region since the region was handed over (put into a cache).
    pub(crate) fn record_read(&self, offset: u64) -> bool {
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

    /// Whether users read the region at an offset during the current or the previous generation.
    pub(crate) fn is_hot(&self, offset: u64) -> bool {
        let Some(maps) = self.maps.get() else { return false };
        let (region, current) = (offset >> self.region, self.generations.current.load(Relaxed));
        [current, current.wrapping_sub(1)].into_iter().any(|generation| {
            let (of, bits) = &maps.of_generations[(generation & 1) as usize];
            of.load(Relaxed) == generation && bits.has(region)
        })
    }

    /// Marks the regions of a new table's warm blocks as hot until the current generation ends, as
    /// if users had read them in the previous generation. The reason is that these blocks replace
    /// hot blocks of the inputs.
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
    /// Returns the bits of `generation`, which tell the regions that were read in it. `generation`
    /// must be the current or the previous one. If the bits are still those of an older generation,
    /// clears them first.
    fn of(&self, generation: u32) -> &Bits {
        let (of, bits) = &self.of_generations[(generation & 1) as usize];
        let known = of.load(Relaxed);
        if known != generation && of.compare_exchange(known, generation, Relaxed, Relaxed).is_ok() {
            bits.clear_all();
        }
        bits
    }
}

/// A fixed number of atomic bits.
#[derive(Debug)]
struct Bits(Box<[AtomicU64]>);

impl Bits {
    fn new(count: u64) -> Self {
        Self((0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(&self, index: u64) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(usize::try_from(index / 64).ok()?)?, 1 << (index % 64)))
    }

    /// Sets a bit. Returns whether it was clear. Does not write if the bit is already set.
    fn set(&self, index: u64) -> bool {
        let Some((word, bit)) = self.word(index) else { return false };
        word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Relaxed) & bit == 0
    }

    /// Clears a bit. Returns whether it was set.
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

    fn hot_regions(limit: u64, bytes: u64) -> HotRegions {
        HotRegions::new(Arc::new(Generations::new(limit)), bytes)
    }

    #[test]
    fn regions_stay_hot_through_the_next_generation() {
        let hot_regions = hot_regions(u64::MAX, 1 << 20);
        hot_regions.generations.pass(1);
        assert!(!hot_regions.is_hot(8192));
        hot_regions.record_read(8200);
        assert!(
            hot_regions.is_hot(8192) && !hot_regions.is_hot(4096) && !hot_regions.is_hot(12_288)
        );
        hot_regions.generations.pass(GENERATION_NS);
        assert!(hot_regions.is_hot(8192), "the generation has not ended");
        hot_regions.generations.pass(GENERATION_NS + 1);
        hot_regions.record_read(0);
        assert!(hot_regions.is_hot(8192) && hot_regions.is_hot(0));
        hot_regions.generations.pass(2 * GENERATION_NS + 1);
        assert!(!hot_regions.is_hot(8192) && hot_regions.is_hot(0));
        // A region that is read in every generation stays hot.
        for round in 3..10 {
            hot_regions.record_read(0);
            hot_regions.generations.pass(round * GENERATION_NS + 1);
            assert!(hot_regions.is_hot(0));
        }
    }

    #[test]
    fn a_generation_ends_when_its_hot_regions_fill_memory() {
        let hot_regions = hot_regions(4 * 4096, 1 << 20);
        (0..6).for_each(|region| assert!(!hot_regions.record_read(region * 4096)));
        assert!((0..6).all(|region| hot_regions.is_hot(region * 4096)));
        // The fourth read ended the first generation. Regions 4 and 5 were read in the new one, so
        // reading them again does not count, and the new generation does not end.
        (4..6).for_each(|region| assert!(!hot_regions.record_read(region * 4096)));
        assert!(hot_regions.is_hot(0));
        (6..9).for_each(|region| assert!(!hot_regions.record_read(region * 4096)));
        let hot: Vec<u64> = (0..9).filter(|region| hot_regions.is_hot(region * 4096)).collect();
        assert_eq!(hot, [4, 5, 6, 7, 8]);
    }

    #[test]
    fn regions_handed_over_stay_hot_for_a_generation_and_their_first_read_is_reported() {
        let hot_regions = hot_regions(u64::MAX, 1 << 20);
        hot_regions.inherit(&[4096, 40_960].map(paged));
        assert!(hot_regions.is_hot(4096) && hot_regions.is_hot(40_960) && !hot_regions.is_hot(0));
        assert!(hot_regions.record_read(4096), "handed over, and read");
        assert!(!hot_regions.record_read(4096), "read again");
        assert!(!hot_regions.record_read(0), "not handed over");
        hot_regions.generations.pass(1);
        hot_regions.generations.pass(GENERATION_NS + 1);
        assert!(hot_regions.is_hot(4096) && !hot_regions.is_hot(40_960));
    }

    #[test]
    fn handover_stops_when_little_of_it_is_read() {
        let hot_regions = hot_regions(u64::MAX, 1 << 26);
        let worth_it = || hot_regions.generations.is_worth_it();
        let mut round = 0;
        let mut pass = || {
            hot_regions.generations.pass(round * GENERATION_NS + 1);
            round += 1;
        };
        pass();
        let regions = (2 * ENOUGH_HANDED_OVER) >> SMALLEST_REGION;
        let blocks: Vec<u64> = (0..regions).map(|region| region << SMALLEST_REGION).collect();
        let handed: Vec<WarmBlock> = blocks.iter().copied().map(paged).collect();
        hot_regions.inherit(&handed);
        assert!(worth_it(), "users had no time to read it");
        pass();
        assert!(!worth_it());
        let (first, second) = blocks.split_at(blocks.len() / 16);
        first.iter().for_each(|&block| assert!(hot_regions.record_read(block)));
        assert!(!worth_it(), "a sixteenth was read");
        second[..first.len()].iter().for_each(|&block| assert!(hot_regions.record_read(block)));
        assert!(worth_it());
        // At the end of a generation, the count of bytes read and the count of bytes handed over
        // are both halved. So their ratio stays the same.
        pass();
        assert!(worth_it());
        pass();
        pass();
        assert!(worth_it(), "too little was handed over to judge");
    }

    #[test]
    fn blocks_in_the_block_cache_are_not_judged_by_reads() {
        let hot_regions = hot_regions(u64::MAX, 1 << 20);
        hot_regions.inherit(&[WarmBlock { offset: 4096, is_paged_only: false }]);
        assert!(hot_regions.is_hot(4096) && !hot_regions.record_read(4096));
        assert_eq!(hot_regions.generations.handed_over.now.load(Relaxed), 0);
    }

    #[test]
    fn regions_grow_with_the_table_and_cover_every_offset() {
        for (bytes, region) in [(0, 12), (1 << 27, 12), (1 << 28, 13), (1 << 31, 16), (1 << 40, 16)]
        {
            let hot_regions = hot_regions(u64::MAX, bytes);
            assert_eq!(hot_regions.region, region, "{bytes}");
            if bytes <= 1 << 31 {
                hot_regions.record_read(bytes);
                assert!(hot_regions.is_hot(bytes));
                hot_regions.record_read(u64::MAX);
            }
        }
    }
}
