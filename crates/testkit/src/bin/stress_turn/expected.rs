//! The expected state of `db_stress`'s keys. `db_stress` numbers its keys, and derives each key and
//! value from a number. It keeps the state of each key in a file.
//!
//! The file is an array of 32-bit little-endian words. It has one word for each key of each column
//! family; the column families are in the order of their ids:
//!
//! ```text
//! bits 0-14     number of the value
//! bit 15        whether a write is in progress
//! bits 16-29    number of deletions of the key
//! bit 30        whether a deletion is in progress
//! bit 31        whether the key is deleted
//! ```
//!
//! Sources: `db_stress_tool/expected_value.h`, `db_stress_common.{h,cc}` and
//! `db_stress_shared_state.h`.
#![expect(clippy::disallowed_methods, reason = "the state of db_stress is not a database's file")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use tailwater::Db;
use tailwater_format::wide_column::{self, WideColumn};

use crate::arguments::Arguments;
use crate::contents::Contents;
use crate::extra::EXTRA_FAMILY;

/// Number of keys in a window. A window is a range of consecutive key numbers; its size is 100
/// times the `key_window_scale_factor` of `db_stress`.
const WINDOW: u64 = 1000;
/// For each key length (one, two and three times eight bytes), the number of keys of that length in
/// a window. These numbers are the percentages of `key_len_percent_dist`, times the window's size.
const WEIGHTS: [u64; 3] = [10, 300, 690];
/// The `value_size_mult` of `db_stress`: values have one, two or three times this length, in bytes.
const SIZE_STEP: usize = 32;
/// The `seed` of `db_stress`. It determines which keys are never overwritten.
const SEED: u64 = 2_341_234;
/// The `nooverwritepercent` of `db_stress`: percentage of the keys that are never overwritten.
const NO_OVERWRITE_PERCENT: u64 = 1;

const VALUE_MASK: u32 = 0x7fff;
const WRITE_UNDER_WAY: u32 = 1 << 15;
const DELETION_UNDER_WAY: u32 = 1 << 30;
const DELETED: u32 = 1 << 31;

/// Which operations `db_stress` allows on each key, and how it writes values.
#[derive(Debug)]
pub(crate) struct Keys {
    /// Keys that `db_stress` never overwrites: it puts such a key once, and then deletes it with a
    /// single deletion before it puts the key again.
    put_once: HashSet<Vec<u8>>,
    entity_one_in: u32,
}

impl Keys {
    /// Returns the rules that `db_stress` follows when it writes keys to a database with these
    /// arguments.
    pub(crate) fn new(arguments: &Arguments) -> Self {
        let numbers = if arguments.any_keys { Vec::new() } else { put_once(arguments.max_key) };
        let put_once = numbers.into_iter().map(key).collect();
        Self { put_once, entity_one_in: arguments.entity_one_in }
    }

    /// Returns whether a key that has a value may be put without deleting it first.
    pub(crate) fn may_overwrite(&self, key: &[u8]) -> bool {
        !self.put_once.contains(key)
    }

    /// Returns the wide-column entity that `db_stress` writes for `value`; `None` if it writes
    /// `value` itself.
    pub(crate) fn entity(&self, value: &[u8]) -> Option<Vec<u8>> {
        let number = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))?;
        if self.entity_one_in == 0 || number % self.entity_one_in != 0 {
            return None;
        }
        let more = (1..=number as usize % 4).map(|at| {
            let (name, value) = (value.get(..at), value.get(at..));
            WideColumn::new(name.unwrap_or_default(), value.unwrap_or_default())
        });
        let columns = [WideColumn::new(wide_column::DEFAULT_COLUMN, value)].into_iter().chain(more);
        let mut entity = Vec::new();
        wide_column::encode(&columns.collect::<Vec<_>>(), &mut entity).ok()?;
        Some(entity)
    }
}

/// Compares the contents of a database with the file in which `db_stress` keeps the state of its
/// keys. Returns the number of keys compared.
pub(crate) fn check(
    contents: &Contents,
    db: &Db,
    state: &Path,
    arguments: &Arguments,
) -> Result<usize, String> {
    let bytes = fs::read(state).map_err(|error| format!("{}: {error}", state.display()))?;
    let (words, _) = bytes.as_chunks::<4>();
    let max_key = usize::try_from(arguments.max_key).map_err(|error| error.to_string())?;
    let mut families = db.column_families();
    // A killed run of this program may have left the extra family, which `db_stress` does not know.
    families.retain(|family| family.name() != EXTRA_FAMILY);
    if words.len() != max_key * families.len() {
        let (words, families) = (words.len(), families.len());
        return Err(format!(
            "the state has {words} words for {families} families of {max_key} keys"
        ));
    }
    for (family, words) in families.iter().zip(words.chunks(max_key)) {
        check_family(contents, family.name(), words)?;
    }
    Ok(words.len())
}

fn check_family(contents: &Contents, name: &str, words: &[[u8; 4]]) -> Result<(), String> {
    let mut found = contents.family(name).iter().peekable();
    for (number, word) in words.iter().enumerate() {
        let key = key(number as u64);
        let failed = |what: &str| {
            let word = u32::from_le_bytes(*word);
            let shown = key.escape_ascii();
            format!("{name}: key {number} ({shown}), whose state is {word:#010x}, {what}")
        };
        if let Some((unknown, _)) = found.next_if(|(found, _)| **found < key[..]) {
            return Err(failed(&format!("follows an unknown key {}", unknown.escape_ascii())));
        }
        let value = found.next_if(|(found, _)| **found == key[..]).map(|(_, value)| &value[..]);
        check_value(u32::from_le_bytes(*word), value).map_err(|what| failed(&what))?;
    }
    match found.next() {
        Some((unknown, _)) => Err(format!("{name}: unknown key {}", unknown.escape_ascii())),
        None => Ok(()),
    }
}

/// Checks whether a key may have `value` if `word` is its state; `None` means that the key has no
/// value.
fn check_value(word: u32, value: Option<&[u8]>) -> Result<(), String> {
    let (before, after) = (word & VALUE_MASK, (word + 1) & VALUE_MASK);
    let is_deleted = word & DELETED != 0;
    let (writes, deletes) = (word & WRITE_UNDER_WAY != 0, word & DELETION_UNDER_WAY != 0);
    match value {
        None if is_deleted || deletes => Ok(()),
        None => Err("is missing".to_owned()),
        Some(value) if !is_deleted && *value == *value_of(before) => Ok(()),
        Some(value) if writes && *value == *value_of(after) => Ok(()),
        Some(value) => Err(format!("has {}", value.escape_ascii())),
    }
}

/// Returns the value that `db_stress` writes for a value number.
fn value_of(number: u32) -> Vec<u8> {
    let length = (number as usize % 3 + 1) * SIZE_STEP;
    let mut value = number.to_le_bytes().to_vec();
    value.extend((4..length).map(|at| number as u8 ^ at as u8));
    value
}

/// Returns the key that `db_stress` derives from a key number. Keys sort in the order of their
/// numbers.
///
/// A key consists of one, two or three parts of eight bytes each. The number of parts depends on
/// the position of the key number in its window of [`WINDOW`] numbers. Each part is a big-endian
/// number. All parts except the last have the largest value that is possible at their position. Up
/// to seven letters `x` may follow the last part.
fn key(number: u64) -> Vec<u8> {
    let (window, mut offset) = (number / WINDOW, number % WINDOW);
    let mut key = Vec::new();
    for (level, weight) in WEIGHTS.into_iter().enumerate() {
        let base = if level == 0 { window * weight } else { 0 };
        key.extend_from_slice(&(base + offset.min(weight - 1)).to_be_bytes());
        if offset < weight {
            let is_followed = offset + 1 == weight || level + 1 == WEIGHTS.len();
            let letters = if is_followed { 0 } else { offset & 7 };
            key.extend((0..letters).map(|_| b'x'));
            break;
        }
        offset -= weight;
    }
    key
}

/// Returns the numbers of the keys that `db_stress` never overwrites. It shuffles all key numbers
/// with a random number generator, and takes the first ones.
fn put_once(max_key: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..max_key).collect();
    let mut random = MersenneTwister::new(SEED);
    let count = (max_key * NO_OVERWRITE_PERCENT / 100) as usize;
    for at in 0..count {
        let chosen = at + (random.next() % (max_key - at as u64)) as usize;
        numbers.swap(at, chosen);
    }
    numbers.truncate(count);
    numbers
}

/// The 64-bit Mersenne Twister of the C++ library, `std::mt19937_64`.
struct MersenneTwister {
    state: [u64; 312],
    at: usize,
}

impl MersenneTwister {
    fn new(seed: u64) -> Self {
        let mut state = [seed; 312];
        for at in 1..state.len() {
            let before = state[at - 1] ^ (state[at - 1] >> 62);
            state[at] = before.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at as u64);
        }
        Self { state, at: 312 }
    }

    fn next(&mut self) -> u64 {
        if self.at == self.state.len() {
            self.twist();
        }
        let mut word = self.state[self.at];
        self.at += 1;
        word ^= (word >> 29) & 0x5555_5555_5555_5555;
        word ^= (word << 17) & 0x71d6_7fff_eda6_0000;
        word ^= (word << 37) & 0xfff7_eee0_0000_0000;
        word ^ (word >> 43)
    }

    fn twist(&mut self) {
        const LOW: u64 = (1 << 31) - 1;
        let length = self.state.len();
        for at in 0..length {
            let joined = (self.state[at] & !LOW) | (self.state[(at + 1) % length] & LOW);
            let odd = if joined & 1 == 1 { 0xb502_6f5a_a966_19e9 } else { 0 };
            self.state[at] = self.state[(at + 156) % length] ^ (joined >> 1) ^ odd;
        }
        self.at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{MersenneTwister, check_value, key, value_of};

    #[test]
    fn the_generator_is_that_of_the_cpp_library() {
        // The C++ standard specifies the ten-thousandth number of a generator with this seed.
        let mut random = MersenneTwister::new(5489);
        let last = (0..10_000).map(|_| random.next()).last();
        assert_eq!(last, Some(9_981_545_732_273_789_042));
    }

    #[test]
    fn keys_ascend() {
        let keys: Vec<_> = (0..5000).map(key).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(key(1003), [&[0, 0, 0, 0, 0, 0, 0, 13][..], b"xxx"].concat());
        assert_eq!(key(310).len(), 24);
    }

    #[test]
    fn a_key_with_a_pending_write_may_have_either_value() {
        let (old, new) = (value_of(6), value_of(7));
        assert!(check_value(6, Some(&old)).is_ok());
        assert!(check_value(6, Some(&new)).is_err());
        assert!(check_value(6, None).is_err());
        assert!(check_value(6 | 1 << 15, Some(&new)).is_ok());
        assert!(check_value(6 | 1 << 15, Some(&old)).is_ok());
        assert!(check_value(6 | 1 << 30, None).is_ok());
        assert!(check_value(6 | 1 << 31, Some(&old)).is_err());
        assert!(check_value(6 | 1 << 31, None).is_ok());
    }
}
