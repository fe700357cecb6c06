//! Tests of table properties on tables that RocksDB wrote.

mod common;

use common::GOLDEN;
use tailwater_format::Error;
use tailwater_format::compress::Compression;
use tailwater_format::table::{Footer, IndexType, Properties};

#[test]
fn golden_properties_round_trip() {
    for golden in GOLDEN {
        let entries = golden.properties();
        let properties = Properties::from_entries(entries_of(&entries)).unwrap();
        assert_eq!(properties.to_entries(), entries, "{}", golden.name);

        assert_eq!(properties.num_entries as usize, golden.entries);
        assert_eq!(properties.column_family_name, golden.name.as_bytes());
        assert_eq!(properties.comparator_name, b"leveldb.BytewiseComparator");
        assert_eq!(properties.raw_key_size as usize, golden.entries * 16);
        assert_eq!(properties.index_type, Some(IndexType::BinarySearch));
        assert_eq!(properties.index_value_is_delta_encoded, golden.format_version >= 4);
        assert_eq!(properties.index_key_is_user_key, golden.format_version >= 3);
        assert!(properties.whole_key_filtering && !properties.prefix_filtering);
        assert_eq!(properties.merge_operator_name, b"nullptr");
        assert_eq!(properties.data_block_restart_interval, 16);
        assert_eq!(properties.index_block_restart_interval, 1);
        assert_eq!(properties.data_size, properties.tail_start_offset);
        let (first, last) = (properties.smallest_sequence, properties.largest_sequence);
        assert_eq!(last.unwrap() - first.unwrap() + 1, golden.entries as u64);
        assert!(properties.user_collected.is_empty(), "{:?}", properties.user_collected);
        assert_eq!(properties.check_supported(), Ok(()));
        // RocksDB does not count the data blocks of a table that has a compression dictionary.
        let counted = properties.num_data_blocks > 0;
        assert_eq!(counted, !golden.name.ends_with("-dictionary"));
    }
}

/// Returns entries in the form in which a block decoder returns them.
fn entries_of(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<(&[u8], &[u8])> {
    entries.iter().map(|(name, value)| (&name[..], &value[..])).collect()
}

#[test]
fn compression_types_are_read_in_both_forms() {
    for golden in GOLDEN {
        let properties = Properties::from_entries(golden.properties()).unwrap();
        let version = Footer::decode(golden.bytes, 0).unwrap().format_version;
        let kind = Compression::from_byte(golden.compression).unwrap();
        let used: Vec<Compression> =
            [kind].into_iter().filter(|&kind| kind != Compression::None).collect();
        assert_eq!(properties.compressions(version), Ok(used.clone()), "{}", golden.name);
        let written = Properties::compression_property(version, kind, &used);
        assert_eq!(written, properties.compression_name);
    }
    let parse = |name: &str, version| {
        let mut properties = Properties::default();
        properties.compression_name = name.as_bytes().to_vec();
        properties.compressions(version)
    };
    assert_eq!(parse(";;", 7), Ok(vec![]));
    assert_eq!(parse("BuiltinV2;;", 7), Ok(vec![]));
    assert_eq!(parse("BuiltinV2;0407;later", 7), Ok(vec![Compression::Lz4, Compression::Zstd]));
    assert_eq!(parse("NoCompression", 6), Ok(vec![]));
    assert_eq!(parse("", 5).unwrap().len(), 8);
    let mine = Error::unsupported("compression manager Mine".to_string());
    assert_eq!(parse("Mine;80;", 7), Err(mine));
    for damaged in ["LZ4", "BuiltinV2;04", "BuiltinV2;4;", "BuiltinV2;00;", "BuiltinV2;0x;", ";+4;"]
    {
        assert!(parse(damaged, 7).is_err(), "{damaged}");
    }
    for damaged in ["lz4", "BuiltinV2;04;"] {
        assert!(parse(damaged, 6).is_err(), "{damaged}");
    }
    let mixed = [Compression::Zstd, Compression::Lz4, Compression::None, Compression::Lz4];
    let write = |version, configured, used: &[Compression]| {
        String::from_utf8(Properties::compression_property(version, configured, used)).unwrap()
    };
    assert_eq!(write(7, Compression::Lz4, &mixed), "BuiltinV2;0407;");
    assert_eq!(write(7, Compression::Lz4, &[]), "BuiltinV2;;");
    assert_eq!(write(7, Compression::None, &[]), ";;");
    assert_eq!(write(6, Compression::Lz4, &mixed), "ZSTD");
    assert_eq!(write(6, Compression::Snappy, &[]), "Snappy");
}

#[test]
fn unsupported_properties_are_refused_by_name() {
    let index_type = ("rocksdb.block.based.table.index.type", &b"\0\0\0\0"[..]);
    let check = |entries: &[(&str, &[u8])]| {
        Properties::from_entries(entries.iter().copied()).and_then(|it| it.check_supported())
    };
    assert_eq!(check(&[index_type]), Ok(()));
    assert!(check(&[]).is_err());
    let timestamps = ("rocksdb.user.defined.timestamps.persisted", &b"\0"[..]);
    assert_eq!(
        check(&[index_type, timestamps]),
        Err(Error::unsupported("user-defined timestamps"))
    );
    let blobs = ("rocksdb.embedded.blob.stats", &b"\x01\x01"[..]);
    assert_eq!(check(&[index_type, blobs]), Err(Error::unsupported("embedded blob records")));
    let later = ("rocksdb.block.based.table.index.type", &b"\x04\0\0\0"[..]);
    assert_eq!(check(&[later]), Err(Error::unsupported("index type 4".to_string())));
    assert!(check(&[("rocksdb.block.based.table.index.type", b"\0")]).is_err());
    assert!(check(&[("rocksdb.num.entries", b"\xff")]).is_err());
    assert!(check(&[("b", b""), ("a", b"")]).is_err());
    assert!(check(&[("a", b""), ("a", b"")]).is_err());
}

#[test]
fn unknown_and_external_properties_are_kept() {
    let entries = [
        ("rocksdb.external_sst_file.global_seqno", &b"\x05\0\0\0\0\0\0\0"[..]),
        ("rocksdb.external_sst_file.version", b"\x02\0\0\0"),
        ("rocksdb.of.the.future", b"anything"),
        ("the user's", b"\x00\xff"),
    ];
    let properties = Properties::from_entries(entries).unwrap();
    assert_eq!(properties.external_global_sequence, Some(5));
    assert_eq!(properties.external_version, Some(2));
    assert_eq!(properties.user_collected.len(), 2);
    let written = properties.to_entries();
    for (name, value) in entries {
        assert!(written.contains(&(name.as_bytes().to_vec(), value.to_vec())), "{name}");
    }
    assert_eq!(Properties::from_entries(entries_of(&written)), Ok(properties));
}

#[test]
fn damaged_properties_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut accepted = 0;
    for _ in 0..2_000 {
        let golden = &GOLDEN[random.usize(..GOLDEN.len())];
        let mut entries = golden.properties();
        for _ in 0..3 {
            let at = random.usize(..entries.len());
            let value = &mut entries[at].1;
            match random.u8(..3) {
                0 => value.truncate(random.usize(..=value.len())),
                1 => value.fill_with(|| random.u8(..)),
                _ => value.push(random.u8(..)),
            }
        }
        if let Ok(properties) = Properties::from_entries(entries_of(&entries)) {
            let _ = properties.check_supported();
            let _ = properties.compressions(random.u32(2..8));
            let again = Properties::from_entries(properties.to_entries()).unwrap();
            assert_eq!(again, properties);
            accepted += 1;
        }
    }
    assert!(accepted > 0, "all changed properties were refused");
}
