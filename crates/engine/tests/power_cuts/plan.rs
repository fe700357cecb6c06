//! The puts that the writers make. They follow from a seed, so the writing process and the checking
//! process can both compute them.

use fastrand::Rng;

/// Number of writing threads.
pub(crate) const WRITERS: usize = 4;
/// Number of keys of each writer.
pub(crate) const SLOTS: usize = 40;
/// Maximum length of a value, in bytes.
const LONGEST: usize = 8 << 10;

/// The seed selects one of these numbers. If it is N, one put in N is synced on average. With 1,
/// every put is synced. With 32, the writers fill whole logs between two synced puts.
const SYNCED: [u64; 4] = [1, 2, 8, 32];

/// The puts of all writers, derived from a seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
}

/// One put of a writer.
#[derive(Debug)]
pub(crate) struct Put {
    /// Index of the key among the keys of its writer.
    pub(crate) slot: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) sync: bool,
}

impl Plan {
    /// Returns the put that has the number `number` among the puts of a writer. The length of the
    /// value is random on a logarithmic scale.
    pub(crate) fn put(self, writer: usize, number: u64) -> Put {
        let mut rng = Rng::with_seed(self.seed ^ (number << 8 | writer as u64));
        // The first random number is similar for similar seeds. So it only seeds the generator that
        // is used.
        rng = Rng::with_seed(rng.u64(..));
        let slot = rng.usize(..SLOTS);
        let sync = rng.u64(..SYNCED[self.seed as usize % SYNCED.len()]) == 0;
        let longest = 1_usize << rng.u32(..=LONGEST.ilog2());
        let mut value = vec![0; rng.usize(1..=longest)];
        rng.fill(&mut value);
        Put { slot, key: key(writer, slot), value, sync }
    }
}

/// Returns the key that has the index `slot` among the keys of a writer.
pub(crate) fn key(writer: usize, slot: usize) -> Vec<u8> {
    format!("writer{writer} slot{slot:02}").into_bytes()
}
