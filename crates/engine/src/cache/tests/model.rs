//! Random operations on the cache, compared with a model that counts every byte.

use std::collections::BTreeMap;

use super::*;

const FILES: u64 = 6;
const BLOCKS: u64 = 40;

/// The model: the values held outside the cache, and the serial number of the value last inserted
/// for each key.
struct Model {
    random: fastrand::Rng,
    cache: Cache<Block>,
    /// For each key, the serial number of the value that the cache may hold.
    known: BTreeMap<Key, u64>,
    held: Vec<Arc<Cached<Block>>>,
    next_serial: u64,
    /// Number of inserts that the cache admitted. The next two fields are the number of inserts
    /// whose key was already present, and the number of entries that were erased.
    admitted: usize,
    present: usize,
    erased: usize,
    /// The lowest usage since the capacity was lowered, in bytes. Until the usage has reached the
    /// new capacity, the usage may only fall.
    excused: usize,
}

impl Model {
    fn new(seed: u64, capacity: usize, shards: usize) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            cache: Cache::with_shards(capacity, shards),
            known: BTreeMap::new(),
            held: Vec::new(),
            next_serial: 0,
            admitted: 0,
            present: 0,
            erased: 0,
            excused: 0,
        }
    }

    fn key(&mut self) -> Key {
        key(self.random.u64(1..=FILES), self.random.u64(..BLOCKS))
    }

    fn insert(&mut self) {
        let key = self.key();
        let priority = if self.random.u8(..3) == 0 { Priority::High } else { Priority::Low };
        let charge = if self.random.u8(..8) == 0 { self.random.usize(..64_000) } else { 4096 };
        self.next_serial += 1;
        let before = is_resident(&self.cache, key);
        let inserted = self.cache.insert(key, Block::new(key, self.next_serial), charge, priority);
        assert_eq!(outcome(&inserted) == "present", before);
        match &inserted {
            Inserted::Admitted(cached) => {
                assert_eq!(cached.charge(), charge + OVERHEAD);
                self.known.insert(key, self.next_serial);
                self.admitted += 1;
            }
            Inserted::Present(cached) => {
                assert_eq!(Some(&cached.serial), self.known.get(&key));
                self.present += 1;
            }
            Inserted::Standalone(cached) => {
                assert_eq!((cached.charge(), cached.serial), (0, self.next_serial));
            }
        }
        if self.random.u8(..4) == 0 {
            self.held.push(inserted.into_cached());
        }
    }

    fn lookup(&mut self) {
        let key = self.key();
        let guard = pin();
        if let Some(found) = self.cache.lookup(key, &guard) {
            found.verify(key);
            assert_eq!(Some(&found.serial), self.known.get(&key), "an erased or unknown value");
            if self.random.u8(..8) == 0 {
                self.held.push(Arc::clone(found));
            }
        }
    }

    fn erase(&mut self) {
        let key = self.key();
        let before = is_resident(&self.cache, key);
        assert_eq!(self.cache.erase(key), before);
        self.erased += usize::from(before);
        self.known.remove(&key);
    }

    fn erase_file(&mut self) {
        let file = self.random.u64(1..=FILES);
        let before = entries_of(&self.cache, file).len();
        assert_eq!(self.cache.erase_file(file), before);
        self.erased += before;
        self.known.retain(|key, _| key.file != file);
    }

    fn set_capacity(&mut self) {
        let capacity = self.random.usize(100_000..600_000);
        self.excused = self.cache.usage();
        self.cache.set_capacity(capacity);
    }

    fn release(&mut self) {
        if !self.held.is_empty() {
            self.held.swap_remove(self.random.usize(..self.held.len()));
        }
    }

    fn step(&mut self) {
        match self.random.u8(..100) {
            0..45 => self.insert(),
            45..75 => self.lookup(),
            75..80 => self.erase(),
            80 => self.erase_file(),
            81 => self.set_capacity(),
            _ => self.release(),
        }
        let (usage, capacity) = (self.cache.usage(), self.cache.capacity());
        assert!(usage <= capacity.max(self.excused), "{usage} bytes of {capacity} in use");
        // After the capacity was lowered, the usage may exceed the capacity, but the usage must not
        // rise.
        self.excused = self.excused.min(usage);
    }

    /// Checks that the usage is the sum of the charges of all values in the cache or held by the
    /// model.
    fn account(&self) {
        settle(&self.cache);
        let guard = pin();
        let mut owners: BTreeMap<*const Cached<Block>, usize> = BTreeMap::new();
        let (mut entries, mut unpinned) = (0, 0);
        for (file, block) in (1..=FILES).flat_map(|file| (0..BLOCKS).map(move |b| (file, b))) {
            let Some(found) = self.cache.peek(key(file, block), &guard) else { continue };
            found.verify(key(file, block));
            entries += 1;
            owners.insert(Arc::as_ptr(found), found.charge());
            if Arc::strong_count(found) == 1 {
                unpinned += found.charge();
            }
        }
        assert_eq!(self.cache.entries(), entries);
        for held in &self.held {
            held.verify(held.key);
            owners.insert(Arc::as_ptr(held), held.charge());
        }
        let expected = owners.values().sum::<usize>();
        assert_eq!(self.cache.usage(), expected);
        assert_eq!(self.cache.pinned_usage(), expected - unpinned);
    }
}

#[test]
fn every_byte_is_accounted_for() {
    let seed = seed();
    for round in 0..12 {
        let mut model = Model::new(seed.wrapping_add(round), 300_000, 1 << (round % 3));
        for step in 0..2000 {
            model.step();
            if step % 16 == 0 {
                model.account();
            }
        }
        model.held.clear();
        for file in 1..=FILES {
            model.erased += model.cache.erase_file(file);
        }
        model.known.clear();
        model.account();
        assert_eq!(model.cache.usage(), 0, "round {round}");
        assert!(model.admitted > model.erased, "nothing was evicted");
        assert!(model.erased > 0 && model.present > 0);
    }
}
