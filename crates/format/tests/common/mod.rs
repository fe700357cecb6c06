//! Tables written by RocksDB 11.8, and a minimal reader that parses them without the code under
//! test.
//!
//! Each table is one column family of the same database, and is named after the feature that
//! distinguishes it. It contains the keys `key00000`, `key00001` and so on with [`value`]s, in
//! blocks of about 1,500 bytes.
#![expect(dead_code, reason = "each test file uses a part of this")]
#![expect(clippy::unwrap_used, reason = "a golden table that cannot be read fails its test")]

/// One golden table.
pub(crate) struct Golden {
    /// The column family's name.
    pub(crate) name: &'static str,
    /// The bytes of the whole file.
    pub(crate) bytes: &'static [u8],
    /// Number of entries in the table.
    pub(crate) entries: usize,
    /// The format version.
    pub(crate) format_version: u32,
    /// The number of the table's checksum type.
    pub(crate) checksum: u8,
    /// The number of the compression type of the table's data blocks.
    pub(crate) compression: u8,
}

macro_rules! golden {
    ($name:literal, $entries:literal, $version:literal, $checksum:literal, $kind:literal) => {
        Golden {
            name: $name,
            bytes: include_bytes!(concat!("../golden/", $name, ".sst")),
            entries: $entries,
            format_version: $version,
            checksum: $checksum,
            compression: $kind,
        }
    };
}

/// Every golden table.
pub(crate) const GOLDEN: &[Golden] = &[
    golden!("none", 60, 2, 1, 0),
    golden!("snappy", 60, 3, 2, 1),
    golden!("snappy-dictionary", 60, 5, 4, 1),
    golden!("zlib", 60, 4, 3, 2),
    golden!("zlib-dictionary", 60, 6, 4, 2),
    golden!("bzip2", 60, 5, 4, 3),
    golden!("lz4", 60, 7, 4, 4),
    golden!("lz4-dictionary", 60, 6, 1, 4),
    golden!("lz4hc", 60, 6, 3, 5),
    golden!("lz4hc-dictionary", 60, 7, 2, 5),
    golden!("zstd", 60, 7, 0, 7),
    golden!("zstd-raw-dictionary", 60, 7, 1, 7),
    golden!("zstd-trained-dictionary", 240, 7, 3, 7),
    golden!("zstd-finalized-dictionary", 60, 6, 4, 7),
];

impl Golden {
    /// Returns the offset of the footer in the file.
    pub(crate) fn footer_offset(&self) -> usize {
        self.bytes.len() - 53
    }

    /// Returns the little-endian number in the four bytes at offset `at` of the footer.
    fn footer_u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[self.footer_offset() + at..][..4].try_into().unwrap())
    }

    /// Returns the base context checksum; 0 if the format version is below 6.
    pub(crate) fn base_context(&self) -> u32 {
        if self.format_version < 6 { 0 } else { self.footer_u32(9) }
    }

    /// Returns the name, offset and length of each meta block. The metaindex itself is the first,
    /// with an empty name.
    pub(crate) fn meta_blocks(&self) -> Vec<(String, usize, usize)> {
        let metaindex = if self.format_version < 6 {
            let footer = &self.bytes[self.footer_offset() + 1..];
            let (offset, rest) = varint(footer);
            (offset, varint(rest).0)
        } else {
            let length = self.footer_u32(13) as usize;
            (self.footer_offset() - 5 - length, length)
        };
        let mut blocks = vec![(String::new(), metaindex.0, metaindex.1)];
        for (name, handle) in entries(&self.bytes[metaindex.0..][..metaindex.1]) {
            let (offset, rest) = varint(handle);
            blocks.push((String::from_utf8(name).unwrap(), offset, varint(rest).0));
        }
        if self.format_version < 6 {
            let footer = &self.bytes[self.footer_offset() + 1..];
            let (offset, rest) = varint(varint(varint(footer).1).1);
            blocks.push(("rocksdb.index".to_string(), offset, varint(rest).0));
        }
        blocks
    }

    /// Returns the bytes of the meta block with this name.
    pub(crate) fn meta_block(&self, name: &str) -> Option<&'static [u8]> {
        let (_, offset, length) = self.meta_blocks().into_iter().find(|block| block.0 == name)?;
        Some(&self.bytes[offset..][..length])
    }

    /// Returns the names and values of the table's properties.
    pub(crate) fn properties(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let block = self.meta_block("rocksdb.properties").unwrap();
        entries(block).into_iter().map(|(name, value)| (name, value.to_vec())).collect()
    }

    /// Returns the offset and length of each data block. `index` is the uncompressed index block,
    /// each of whose entries is a restart point.
    pub(crate) fn data_blocks(&self, index: &[u8]) -> Vec<(usize, usize)> {
        let mut rest = &index[..index.len() - 4 - 4 * restarts(index)];
        let mut blocks = Vec::new();
        while !rest.is_empty() {
            let (shared, tail) = varint(rest);
            assert_eq!(shared, 0);
            let (key, tail) = varint(tail);
            // From format version 4 on, an index entry does not store the length of the block
            // handle.
            let tail = if self.format_version < 4 { varint(tail).1 } else { tail };
            let (offset, tail) = varint(&tail[key..]);
            let (length, tail) = varint(tail);
            blocks.push((offset, length));
            rest = tail;
        }
        blocks
    }
}

/// Returns the value of the entry with number `index`.
pub(crate) fn value(index: u64) -> Vec<u8> {
    const WORDS: [&str; 18] = [
        "flat",
        "tail",
        "reads",
        "while",
        "compaction",
        "writes",
        "data",
        "that",
        "nobody",
        "may",
        "read",
        "again",
        "so",
        "caches",
        "keep",
        "what",
        "users",
        "touch",
    ];
    let mut mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x0123_4567);
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 32;
    let words: Vec<&str> =
        (0..8).map(|at| WORDS[((mixed >> (5 * at)) % WORDS.len() as u64) as usize]).collect();
    format!("{} {mixed:016x}", words.join(" ")).into_bytes()
}

/// Returns the varint at the start of `bytes`, and the bytes after it.
pub(crate) fn varint(bytes: &[u8]) -> (usize, &[u8]) {
    let length = bytes.iter().position(|&byte| byte < 0x80).unwrap() + 1;
    let value =
        bytes[..length].iter().rev().fold(0, |value, byte| value << 7 | (byte & 0x7f) as usize);
    (value, &bytes[length..])
}

fn restarts(block: &[u8]) -> usize {
    let footer = u32::from_le_bytes(block[block.len() - 4..].try_into().unwrap());
    (footer & 0x0fff_ffff) as usize
}

/// Returns the keys and values of an uncompressed data block or meta block.
pub(crate) fn entries(block: &[u8]) -> Vec<(Vec<u8>, &[u8])> {
    let mut rest = &block[..block.len() - 4 - 4 * restarts(block)];
    let (mut key, mut entries) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (shared, tail) = varint(rest);
        let (unshared, tail) = varint(tail);
        let (length, tail) = varint(tail);
        key.truncate(shared);
        key.extend_from_slice(&tail[..unshared]);
        entries.push((key.clone(), &tail[unshared..][..length]));
        rest = &tail[unshared + length..];
    }
    entries
}
