//! The unique id of a table. It is derived from the database's identity, the session and the file
//! number with which the table was written, and stays the same when the file is moved or copied.
//!
//! The internal form consists of three 64-bit words. The first is the lower half of the session id.
//! The other two come from a 128-bit hash of the database id that is seeded with the upper half of
//! the session id: the second word is the hash's upper half XORed with the file number, the third
//! is the hash's lower half. The MANIFEST records the first two words. When RocksDB opens a table,
//! it compares them with the id that the table's properties yield. The external form, which users
//! see, is a hash of the internal form, so that the bits of each part are evenly distributed.
//! Source: `table/unique_id.cc`, `table/unique_id_impl.h`.

use std::fmt;

use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use crate::{Error, Result};

/// The length of a session id, in characters.
pub const SESSION_ID_LENGTH: usize = 20;

/// Number of characters at the end of a session id that encode its lower 62 bits.
const LOW_CHARACTERS: usize = 12;
/// Numbers added to the first two words before they are hashed, chosen so that the external form of
/// an id of zeros is also zero.
const ZERO_OFFSETS: [u64; 2] = [6_417_269_962_128_484_497, 17_391_078_804_906_429_400];

/// The internal unique id of a table.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueId {
    words: [u64; 3],
}

impl UniqueId {
    /// Returns the id of the table that the database with id `db_id` wrote as file `file_number` in
    /// the session `session_id`.
    ///
    /// # Errors
    /// Corruption, for an empty database id, a file number of zero or an invalid session id. A
    /// table with such properties has no unique id, see [`UniqueId::forced`].
    pub fn new(db_id: &[u8], session_id: &[u8], file_number: u64) -> Result<Self> {
        const WHAT: &str = "table unique id";
        if db_id.is_empty() {
            return Err(Error::corruption(WHAT, 0, "a database id", "none"));
        }
        if file_number == 0 {
            return Err(Error::corruption(WHAT, 0, "a file number", "zero"));
        }
        Ok(Self::of_session(db_id, decode_session_id(session_id)?, file_number))
    }

    /// Returns an id for any values of a table's properties, even values for which
    /// [`UniqueId::new`] fails. RocksDB compares this id with the one in the MANIFEST.
    pub fn forced(db_id: &[u8], session_id: &[u8], file_number: u64) -> Self {
        let session = decode_session_id(session_id).unwrap_or_else(|_| {
            let hash = xxh3_128(session_id);
            let (upper, lower) = ((hash >> 64) as u64, hash as u64);
            (upper, if lower == 0 { upper | 1 } else { lower })
        });
        Self::of_session(db_id, session, file_number)
    }

    fn of_session(db_id: &[u8], (upper, lower): (u64, u64), file_number: u64) -> Self {
        let hash = xxh3_128_with_seed(db_id, upper);
        Self { words: [lower, (hash >> 64) as u64 ^ file_number, hash as u64] }
    }

    /// Returns the first 128 bits of the internal form as two numbers.
    pub fn words(&self) -> [u64; 2] {
        let [first, second, _] = self.words;
        [first, second]
    }

    /// Returns the first 128 bits of the internal form, encoded as in the MANIFEST. Users see
    /// only the external form, which is computed from the internal form.
    pub fn manifest_bytes(&self) -> [u8; 16] {
        pair_bytes(self.words())
    }

    /// Returns the 192 bits of the external form, which is shown to users. Its first 16 bytes are
    /// RocksDB's shorter external form.
    pub fn external_bytes(&self) -> [u8; 24] {
        let [first, second, third] = self.words;
        let [low_offset, high_offset] = ZERO_OFFSETS;
        let hash = xxh3_128(&pair_bytes([
            first.wrapping_add(low_offset),
            second.wrapping_add(high_offset),
        ]));
        let (low, high) = (hash as u64, (hash >> 64) as u64);
        let mut bytes = [0; 24];
        let words = [low, high, third.wrapping_add(low).wrapping_add(high)];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Formats the id as RocksDB's messages do.
impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, _] = self.words;
        write!(f, "{{{first},{second}}}")
    }
}

fn pair_bytes([first, second]: [u64; 2]) -> [u8; 16] {
    (u128::from(second) << 64 | u128::from(first)).to_le_bytes()
}

/// Encodes two random numbers as a session id of 20 characters of `0-9A-Z`. The session id
/// preserves all bits of `lower`, but only `upper` modulo 36^8 / 4, a little more than 39 bits.
///
/// `lower` should not be 0, because the first word of a unique id must not be 0. If it is 0, 1 is
/// encoded instead.
pub fn encode_session_id(upper: u64, lower: u64) -> String {
    let lower = lower.max(1);
    let mut front = upper << 2 | lower >> 62;
    let mut back = lower & (u64::MAX >> 2);
    let mut digits = [0; SESSION_ID_LENGTH];
    let (head, tail) = digits.split_at_mut(SESSION_ID_LENGTH - LOW_CHARACTERS);
    for (place, number) in [(head, &mut front), (tail, &mut back)] {
        for digit in place.iter_mut().rev() {
            *digit = *number % 36;
            *number /= 36;
        }
    }
    let character = |digit| char::from_digit(digit as u32, 36).unwrap_or('0').to_ascii_uppercase();
    digits.into_iter().map(character).collect()
}

/// Decodes a session id of 13 to 24 base-36 digits. Returns its numbers `upper` and `lower`, which
/// [`encode_session_id`] explains.
///
/// # Errors
/// Corruption, for fewer, more or invalid characters.
pub fn decode_session_id(session_id: &[u8]) -> Result<(u64, u64)> {
    let refused = || {
        let found = session_id.escape_ascii().to_string();
        Error::corruption("session id", 0, "13 to 24 characters of 0-9A-Z", found)
    };
    if !(13..=24).contains(&session_id.len()) {
        return Err(refused());
    }
    let number = |characters: &[u8]| {
        characters.iter().try_fold(0u64, |number, &character| {
            let digit = char::from(character).to_digit(36)?;
            Some(number.wrapping_mul(36).wrapping_add(digit.into()))
        })
    };
    let (head, tail) = session_id.split_at(session_id.len() - LOW_CHARACTERS);
    let front = number(head).ok_or_else(refused)?;
    let back = number(tail).ok_or_else(refused)?;
    Ok((front >> 2, (back & (u64::MAX >> 2)) | front << 62))
}
