//! A generator of random bits. Each thread has its own state.

use std::cell::Cell;

use tailwater_io::thread;

thread_local! {
    /// State of the generator; 0 until it is first used.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// Returns 64 random bits. They are not secure, but good enough for the heights of skiplist nodes.
#[inline]
pub(super) fn bits() -> u64 {
    // SplitMix64 applied to a counter. Source: Steele, Lea, Flood, "Fast splittable pseudorandom
    // number generators", 2014.
    RANDOM.with(|state| {
        let counter = match state.get() {
            0 => (thread::ordinal() as u64) << 32,
            counter => counter,
        }
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(counter);
        let mixed = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}
