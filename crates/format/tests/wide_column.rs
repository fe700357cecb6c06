//! Tests of wide-column entities that RocksDB wrote. A merge produced those of version 1; those of
//! version 2 have values in blob files.

use tailwater_format::Error;
use tailwater_format::blob::{BlobIndex, BlobLocation};
use tailwater_format::compress::Compression;
use tailwater_format::wide_column::{WideColumn, decode, default_column, encode, has_blob_columns};

/// The value of the columns that are stored in blob files because of their length.
const LONG: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\
    0123456789abcdef0123456789abcdef";

/// Returns the golden entities, each with its columns.
fn golden() -> Vec<(Vec<u8>, Vec<WideColumn<'static>>)> {
    let plain = |name: &'static str, value: &'static str| {
        WideColumn::new(name.as_bytes(), value.as_bytes())
    };
    let blob = |name: &'static str, value: &'static [u8]| WideColumn {
        name: name.as_bytes(),
        value,
        is_blob_index: true,
    };
    let long = LONG.as_bytes();
    vec![
        (
            [b"\x01\x03\x00\x0c\x01a\x01\x04long\xa0\x01default,more1", long].concat(),
            vec![plain("", "default,more"), plain("a", "1"), plain("long", LONG)],
        ),
        (
            b"\x01\x03\x00\x05\x01a\x00\x01b\x03,moretwo".to_vec(),
            vec![plain("", ",more"), plain("a", ""), plain("b", "two")],
        ),
        (b"\x01\x01\x00\x05,more".to_vec(), vec![plain("", ",more")]),
        (b"\x01\x02\x01a\x00\x01b\x03two".to_vec(), vec![plain("a", ""), plain("b", "two")]),
        (b"\x01\x00".to_vec(), vec![]),
        (
            b"\x02\x03\x03\x03\x05\x01\x01\x11\x00\x01\x04\x07\x01\x06alongdefault1\
              \x01\x0a\x40\xa0\x01\x00"
                .to_vec(),
            vec![plain("", "default"), plain("a", "1"), blob("long", b"\x01\x0a\x40\xa0\x01\x00")],
        ),
        (
            b"\x02\x03\x03\x03\x02\x11\x11\x01\x00\x01\x01\x07\x07\x01bc\
              \x01\x0a\x82\x02\xa0\x01\x00\x01\x0a\xc4\x03\xa0\x01\x00x"
                .to_vec(),
            vec![
                blob("", b"\x01\x0a\x82\x02\xa0\x01\x00"),
                blob("b", b"\x01\x0a\xc4\x03\xa0\x01\x00"),
                plain("c", "x"),
            ],
        ),
    ]
}

#[test]
fn golden_entities_round_trip() {
    for (entity, columns) in golden() {
        assert_eq!(decode(&entity).as_deref(), Ok(&columns[..]));
        let mut again = Vec::new();
        encode(&columns, &mut again).unwrap();
        assert_eq!(again, entity);
        let default = columns.first().copied().filter(|column| column.name.is_empty());
        assert_eq!(default_column(&entity), Ok(default));
        let blobs = columns.iter().any(|column| column.is_blob_index);
        assert_eq!(has_blob_columns(&entity), Ok(blobs));
    }
}

#[test]
fn blob_columns_hold_blob_indexes() {
    let (_, columns) = golden().pop().unwrap();
    let location = BlobLocation {
        file_number: 10,
        offset: 0x102,
        size: 160,
        compression: Compression::None,
        expiration: None,
    };
    assert_eq!(BlobIndex::decode(columns[0].value), Ok(BlobIndex::Blob(location)));
}

#[test]
fn damaged_entities_are_refused_or_well_formed() {
    for (entity, _) in golden() {
        for length in 0..entity.len() {
            assert!(decode(&entity[..length]).is_err(), "{entity:?} truncated to {length}");
            let _ = default_column(&entity[..length]);
            let _ = has_blob_columns(&entity[..length]);
        }
        let mut longer = entity.clone();
        longer.push(0);
        assert!(decode(&longer).is_err());
        for bit in 0..entity.len() * 8 {
            let mut damaged = entity.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            check(&damaged);
        }
    }
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut decoded = 0;
    for _ in 0..100_000 {
        let mut entity: Vec<u8> = (0..random.usize(..24)).map(|_| random.u8(..20)).collect();
        if let [version, count, ..] = &mut entity[..] {
            (*version, *count) = (random.u8(1..=2), random.u8(..4));
        }
        decoded += usize::from(check(&entity));
    }
    assert!(decoded > 0, "no random bytes were an entity");
}

/// Checks that the functions which read an entity agree with each other, if it can be decoded.
/// Returns whether it can.
fn check(entity: &[u8]) -> bool {
    let (default, blobs) = (default_column(entity), has_blob_columns(entity));
    let Ok(columns) = decode(entity) else { return false };
    assert_eq!(default, Ok(columns.first().copied().filter(|it| it.name.is_empty())));
    assert_eq!(blobs, Ok(columns.iter().any(|column| column.is_blob_index)));
    let mut again = Vec::new();
    if encode(&columns, &mut again).is_ok() {
        assert_eq!(decode(&again), Ok(columns));
    }
    true
}

#[test]
fn counts_and_lengths_beyond_the_input_are_refused() {
    for entity in [
        &b"\x01\xff\xff\xff\xff\x0f"[..],
        b"\x02\xff\xff\xff\xff\x0f\x00\x00\x00",
        b"\x02\x01\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f\x01",
        b"\x01\x01\x00\xff\xff\xff\xff\x0f",
        b"\x00\x00",
        b"\x03\x00",
        b"\x02\x01\x01\x01\x00\x02\x00\x00",
    ] {
        assert!(decode(entity).is_err(), "{entity:?}");
    }
}

#[test]
fn columns_must_be_sorted_by_name() {
    let mut out = Vec::new();
    for names in [["b", "a"], ["a", "a"], ["a", ""]] {
        let columns = names.map(|name| WideColumn::new(name.as_bytes(), b"value"));
        let refused = encode(&columns, &mut out);
        assert!(matches!(refused, Err(Error::Corruption { .. })), "{names:?}");
        assert!(out.is_empty());
    }
    assert!(decode(b"\x01\x02\x01b\x00\x01a\x00").is_err());
}
