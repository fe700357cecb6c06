//! Tests of the decoders of blob files and blob indexes, on files that RocksDB wrote.
//!
//! Each file contains four values of one column family. The blob indexes come from the table that
//! refers to the file.

mod common;

use common::value;
use tailwater_format::blob::{
    BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH, BlobFileFooter,
    BlobFileHeader, BlobIndex, BlobLocation, BlobRecordHeader,
};
use tailwater_format::compress::{Compression, Decompressor};
use tailwater_format::{Error, Result};

struct Golden {
    bytes: &'static [u8],
    column_family_id: u32,
    compression: Compression,
    indexes: [&'static [u8]; 4],
}

const GOLDEN: [Golden; 4] = [
    Golden {
        bytes: include_bytes!("golden/plain.blob"),
        column_family_id: 1,
        compression: Compression::None,
        indexes: [
            b"\x01\x0a\x46\x7e\x00",
            b"\x01\x0a\xec\x01\xdc\x01\x00",
            b"\x01\x0a\xf0\x03\x92\x03\x00",
            b"\x01\x0a\xaa\x07\xd8\x03\x00",
        ],
    },
    Golden {
        bytes: include_bytes!("golden/zstd.blob"),
        column_family_id: 2,
        compression: Compression::Zstd,
        indexes: [
            b"\x01\x0d\x46\x4d\x07",
            b"\x01\x0d\xbb\x01\x48\x07",
            b"\x01\x0d\xab\x02\x51\x07",
            b"\x01\x0d\xa4\x03\x48\x07",
        ],
    },
    Golden {
        bytes: include_bytes!("golden/lz4.blob"),
        column_family_id: 3,
        compression: Compression::Lz4,
        indexes: [
            b"\x01\x10\x46\x47\x04",
            b"\x01\x10\xb5\x01\x43\x04",
            b"\x01\x10\xa0\x02\x4f\x04",
            b"\x01\x10\x97\x03\x44\x04",
        ],
    },
    Golden {
        bytes: include_bytes!("golden/snappy.blob"),
        column_family_id: 4,
        compression: Compression::Snappy,
        indexes: [
            b"\x01\x13\x46\x40\x01",
            b"\x01\x13\xae\x01\x47\x01",
            b"\x01\x13\x9d\x02\x53\x01",
            b"\x01\x13\x98\x03\x4c\x01",
        ],
    },
];

#[test]
fn headers_and_footers_round_trip() {
    for golden in GOLDEN {
        let header = BlobFileHeader::decode(golden.bytes).unwrap();
        assert_eq!(header, BlobFileHeader::new(golden.column_family_id, golden.compression));
        let mut again = Vec::new();
        header.encode(&mut again);
        assert_eq!(again, golden.bytes[..BLOB_HEADER_LENGTH]);

        let bytes = &golden.bytes[golden.bytes.len() - BLOB_FOOTER_LENGTH..];
        let footer = BlobFileFooter::decode(bytes).unwrap();
        assert_eq!(footer, BlobFileFooter::new(4));
        let mut again = Vec::new();
        footer.encode(&mut again);
        assert_eq!(again, bytes);
    }
}

#[test]
fn every_value_is_found_through_its_index() {
    let mut decompressor = Decompressor::new();
    let mut output = Vec::new();
    for golden in GOLDEN {
        let mut end = BLOB_HEADER_LENGTH as u64;
        for (number, bytes) in golden.indexes.into_iter().enumerate() {
            let index = BlobIndex::decode(bytes).unwrap();
            let mut again = Vec::new();
            index.encode(&mut again);
            assert_eq!(again, bytes);
            let BlobIndex::Blob(location) = index else { panic!("{index:?}") };
            assert_eq!(location.compression, golden.compression);
            assert_eq!(location.expiration, None);

            let key = format!("key{number:05}").into_bytes();
            let start = location.record_offset(key.len(), golden.bytes.len() as u64).unwrap();
            assert_eq!(start, end);
            let record = &golden.bytes[start as usize..];
            let header = BlobRecordHeader::decode(record).unwrap();
            end = start + header.record_length();
            let body = &record[BLOB_RECORD_HEADER_LENGTH..];
            let (stored_key, rest) = body.split_at(header.key_length as usize);
            let stored = &rest[..header.value_length as usize];
            assert_eq!(stored_key, key);
            assert_eq!(header.value_length, location.size);
            header.verify(stored_key, stored).unwrap();
            decompressor.decompress(location.compression, stored, None, &mut output).unwrap();
            assert_eq!(output, value(number as u64).repeat(2 * (number + 1)));

            let made = BlobRecordHeader::new(&key, stored, 0);
            let mut again = Vec::new();
            made.encode(&mut again);
            assert_eq!(again, record[..BLOB_RECORD_HEADER_LENGTH]);

            for at in 0..stored.len() {
                let mut damaged = stored.to_vec();
                damaged[at] ^= 1;
                assert!(header.verify(&key, &damaged).is_err());
            }
            assert!(header.verify(&key, &stored[1..]).is_err());
        }
        assert_eq!(end as usize, golden.bytes.len() - BLOB_FOOTER_LENGTH);
    }
}

#[test]
fn damage_is_noticed() {
    let bytes = GOLDEN[1].bytes;
    let (record, footer) =
        (&bytes[BLOB_HEADER_LENGTH..], &bytes[bytes.len() - BLOB_FOOTER_LENGTH..]);
    for length in 0..BLOB_FOOTER_LENGTH {
        assert!(BlobFileFooter::decode(&footer[..length]).is_err());
        assert!(BlobRecordHeader::decode(&record[..length]).is_err());
        if length < BLOB_HEADER_LENGTH {
            assert!(BlobFileHeader::decode(&bytes[..length]).is_err());
        }
    }
    for bit in 0..BLOB_FOOTER_LENGTH * 8 {
        let flipped = |bytes: &[u8]| {
            let mut damaged = bytes[..BLOB_FOOTER_LENGTH].to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            damaged
        };
        assert!(BlobFileFooter::decode(&flipped(footer)).is_err(), "bit {bit}");
        // The last four bytes of a record's header are the checksum of the key and the value, which
        // follow the header. So decoding the header alone does not detect damage to these four
        // bytes.
        assert_eq!(BlobRecordHeader::decode(&flipped(record)).is_err(), bit < 28 * 8);
        // A file's header has no checksum. Only its first eight bytes have fixed values, so only
        // damage to these is always detected.
        assert!(BlobFileHeader::decode(&flipped(bytes)).is_err() || bit >= 64, "bit {bit}");
    }
}

#[test]
fn indexes_of_every_kind_are_read() {
    let location = BlobLocation {
        file_number: 300,
        offset: 70,
        size: 5,
        compression: Compression::Lz4,
        expiration: Some(1000),
    };
    // RocksDB no longer writes these two forms. The bytes follow the description of the format.
    let with_expiration = b"\x02\xe8\x07\xac\x02\x46\x05\x04";
    assert_eq!(BlobIndex::decode(with_expiration), Ok(BlobIndex::Blob(location)));
    let inlined = BlobIndex::Inlined { expiration: 1000, value: b"value" };
    assert_eq!(BlobIndex::decode(b"\x00\xe8\x07value"), Ok(inlined));
    for (index, bytes) in
        [(BlobIndex::Blob(location), &with_expiration[..]), (inlined, b"\x00\xe8\x07value")]
    {
        let mut again = Vec::new();
        index.encode(&mut again);
        assert_eq!(again, bytes);
    }
    for length in 0..with_expiration.len() {
        assert!(BlobIndex::decode(&with_expiration[..length]).is_err());
    }
    assert!(BlobIndex::decode(b"\x01\x0a\x46\x7e\x00\x00").is_err());
    assert!(BlobIndex::decode(b"\x01\x0a\x46\x7e\x3f").is_err());
    assert!(BlobIndex::decode(b"\x03\x0a\x46\x7e\x00").is_err());
    let same_file: Result<BlobIndex<'_>> = Err(Error::unsupported("embedded blob records"));
    assert_eq!(BlobIndex::decode(b"\x01\x00\x46\x7e\x00"), same_file);
}

#[test]
fn records_outside_their_file_are_refused() {
    let location = |offset, size| BlobLocation {
        file_number: 1,
        offset,
        size,
        compression: Compression::None,
        expiration: None,
    };
    // The file has a header of 30 bytes, one record with a header of 32, a key of 8 and a value of
    // 100 bytes, and a footer of 32 bytes. So the value begins at offset 70.
    assert_eq!(location(70, 100).record_offset(8, 202), Ok(30));
    for (offset, size, key_length, file_length) in [
        (69, 100, 8, 202),
        (70, 100, 9, 202),
        (70, 101, 8, 202),
        (70, 100, 8, 201),
        (u64::MAX, 100, 8, 202),
        (70, u64::MAX, 8, 202),
        (70, 100, usize::MAX >> 1, 202),
        (70, 100, 8, 31),
    ] {
        assert!(location(offset, size).record_offset(key_length, file_length).is_err());
    }
}

#[test]
fn random_bytes_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut decoded = 0;
    for _ in 0..100_000 {
        let mut bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        if let Some(first) = bytes.first_mut() {
            *first &= 3;
        }
        if let Ok(index) = BlobIndex::decode(&bytes) {
            let mut again = Vec::new();
            index.encode(&mut again);
            assert_eq!(BlobIndex::decode(&again), Ok(index));
            decoded += 1;
        }
        let _ = BlobFileHeader::decode(&bytes);
        let _ = BlobFileFooter::decode(&bytes);
        let _ = BlobRecordHeader::decode(&bytes);
    }
    assert!(decoded > 0, "no random bytes were an index");
}
