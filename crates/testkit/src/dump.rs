//! The format of a dump: all live entries of a database.
//!
//! A dump comes from a golden database, or from the real RocksDB (the oracle). It is the sequence
//! of all entries, sorted by the id of their column family, and within a column family in the order
//! of its comparator. An entry has this format:
//!
//! ```text
//! name length    4 bytes, little-endian
//! key length     4 bytes, little-endian
//! value length   4 bytes, little-endian
//! name, key, value
//! ```
//!
//! The name is that of the column family.

use std::fmt::Write as _;

/// One live entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name of the entry's column family.
    pub family: String,
    /// The entry's key.
    pub key: Vec<u8>,
    /// The entry's value.
    pub value: Vec<u8>,
}

impl Entry {
    /// Returns the entry as a line of `tailwater db dump --hex`. The line contains the name of the
    /// column family, the key in hex, and the value in hex, separated by tabs.
    pub fn hex_line(&self) -> String {
        let mut line = self.family.clone();
        for part in [&self.key, &self.value] {
            line.push('\t');
            for byte in part {
                // Writing to a string does not fail.
                let _ = write!(line, "{byte:02x}");
            }
        }
        line
    }
}

/// Returns the entries of a dump.
///
/// # Panics
/// If the bytes are not a dump.
pub fn parse(bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let lengths: [usize; 3] = std::array::from_fn(|_| {
            let (length, behind) = rest.split_first_chunk::<4>().expect("a length of 4 bytes");
            rest = behind;
            u32::from_le_bytes(*length) as usize
        });
        let [name, key, value] = lengths.map(|length| {
            let (part, behind) = rest.split_at_checked(length).expect("the bytes of an entry");
            rest = behind;
            part.to_vec()
        });
        let family = String::from_utf8(name).expect("a family's name in UTF-8");
        entries.push(Entry { family, key, value });
    }
    entries
}

/// Returns the bytes of a dump with `entries`.
///
/// # Panics
/// If a name, key or value has 4 GiB or more.
pub fn bytes(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        let parts = [entry.family.as_bytes(), &entry.key, &entry.value];
        for part in parts {
            let length = u32::try_from(part.len()).expect("less than 4 GiB");
            bytes.extend_from_slice(&length.to_le_bytes());
        }
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::{Entry, bytes, parse};

    #[test]
    fn a_dump_is_its_entries_one_after_the_other() {
        let dump = b"\x01\0\0\0\x02\0\0\0\x03\0\0\0fkkvvv\x01\0\0\0\0\0\0\0\0\0\0\0g";
        let entry = |family: &str, key: &[u8], value: &[u8]| Entry {
            family: family.to_owned(),
            key: key.to_vec(),
            value: value.to_vec(),
        };
        let entries = [entry("f", b"kk", b"vvv"), entry("g", b"", b"")];
        assert_eq!(parse(dump), entries);
        assert_eq!(bytes(&entries), dump);
    }
}
