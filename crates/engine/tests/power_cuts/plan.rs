//! The data that the writers write. It is derived from a seed, so that both the writing process and
//! the checking process know it.

use fastrand::Rng;

/// Number of writing threads.
pub(crate) const WRITERS: usize = 4;
/// Number of keys of each writer.
pub(crate) const SLOTS: usize = 40;
/// Maximum length of a value, in bytes.
const LONGEST: usize = 8 << 10;

/// One in this many puts is synced. With 1, all puts are synced; with the largest number, whole
/// logs are filled between two synced puts.
const SYNCED: [u64; 4] = [1, 2, 8, 32];

/// The puts of all writers, derived from a seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
}

/// One put.
#[derive(Debug)]
pub(crate) struct Put {
    /// Index of the key among the keys of the same writer.
    pub(crate) slot: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) sync: bool,
}

impl Plan {
    /// Returns the put of a writer that has this number. Short values are as frequent as long ones.
    pub(crate) fn put(self, writer: usize, number: u64) -> Put {
        let mut rng = Rng::with_seed(self.seed ^ (number << 8 | writer as u64));
        // The first random number of a generator is discarded: it is similar for similar seeds.
        rng = Rng::with_seed(rng.u64(..));
        let slot = rng.usize(..SLOTS);
        let sync = rng.u64(..SYNCED[self.seed as usize % SYNCED.len()]) == 0;
        let longest = 1_usize << rng.u32(..=LONGEST.ilog2());
        let mut value = vec![0; rng.usize(1..=longest)];
        rng.fill(&mut value);
        Put { slot, key: key(writer, slot), value, sync }
    }
}

/// Returns a writer's key.
pub(crate) fn key(writer: usize, slot: usize) -> Vec<u8> {
    format!("writer{writer} slot{slot:02}").into_bytes()
}
