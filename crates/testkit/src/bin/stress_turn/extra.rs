//! The extra column family and the extra keys, which the program writes and deletes again. If it is
//! killed, they may be left in the database.

/// Name of the extra column family, which the program creates and drops.
pub(crate) const EXTRA_FAMILY: &str = "tailwater";
/// Prefix of the extra keys. They sort after all keys of `db_stress`.
///
/// The prefix begins with a digit, because the compaction filter of `db_stress` interprets any
/// other key as a key number, and does not check its bounds.
pub(crate) const EXTRA_KEYS: [u8; 16] = {
    let mut keys = [0xff; 16];
    keys[0] = b'9';
    keys
};
