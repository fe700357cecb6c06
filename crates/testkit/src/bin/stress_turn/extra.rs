//! The column family and the keys that the work adds: killed work may leave them.

/// The column family that the work creates and drops.
pub(crate) const EXTRA_FAMILY: &str = "tailwater";
/// Prefix of the extra keys, which the work puts and deletes: all keys of `db_stress` sort before
/// them.
///
/// db_stress's compaction filter treats any key that does not begin with a digit as a key number,
/// without checking its bounds.
pub(crate) const EXTRA_KEYS: [u8; 16] = {
    let mut keys = [0xff; 16];
    keys[0] = b'9';
    keys
};
