//! The data that writers write, derived from a seed, which both the writing and the checking
//! process know.

use fastrand::Rng;

/// Number of writing threads.
pub(crate) const WRITERS: usize = 4;
/// Number of keys of each writer.
pub(crate) const SLOTS: usize = 40;
/// Maximum length of a value, in bytes.
const LONGEST: usize = 8 << 10;

/// Number of puts per synced put: with 1 all are synced; with the largest, whole logs are complete
/// before a put is synced.
const SYNCED: [u64; 4] = [1, 2, 8, 32];

/// The writes of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
}

/// One put.
#[derive(Debug)]
pub(crate) struct Put {
    /// Index of the key among those of its writer.
    pub(crate) slot: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) sync: bool,
}

impl Plan {
    /// Returns a writer's put with this number. Values have all lengths, and short ones are as
    /// frequent as long ones.
    pub(crate) fn put(self, writer: usize, number: u64) -> Put {
        let mut rng = Rng::with_seed(self.seed ^ (number << 8 | writer as u64));
        // Similar seeds yield similar first numbers.
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
