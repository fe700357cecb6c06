//! Tests of filters. Most compare with filter blocks that RocksDB wrote.
//!
//! The functions below generate the keys of the tables that the blocks come from. All tables were
//! written with `optimize_filters_for_memory` off, except `bloom-memory`.

use tailwater_format::filter::{FilterKey, FilterLayout, FilterPolicy, FilterReader};

macro_rules! block {
    ($name:literal) => {
        ($name, &include_bytes!(concat!("golden/", $name, ".filter"))[..])
    };
}

fn mix(index: u64) -> u64 {
    let mut mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x0123_4567);
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

/// Returns `length` pseudorandom bytes that depend only on `number`.
fn stream(number: u64, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length.div_ceil(8) as u64)
        .flat_map(|at| mix(number * 1000 + at).to_le_bytes())
        .collect();
    bytes.truncate(length);
    bytes
}

/// Returns one key of each length from 1 to 400 bytes.
fn lengths() -> Vec<Vec<u8>> {
    (1..=400).map(|length| stream(length, length as usize)).collect()
}

/// Returns keys of about 1,000 to 5,000 bytes, most of them longer than the hash's internal blocks
/// of 1,024 bytes.
fn long() -> Vec<Vec<u8>> {
    let others = [2047, 2048, 2049, 3000, 3071, 3072, 3073, 5000];
    (1000..1060).chain(others).map(|length| stream(20_000 + length, length as usize)).collect()
}

/// Returns `count` keys of 16 bytes.
fn many(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|number| stream(1000 + number, 16)).collect()
}

/// Returns keys of 10 bytes. Seven keys at a time share a prefix of 4 bytes.
fn with_prefixes() -> Vec<Vec<u8>> {
    let key = |number: u64| [stream(5000 + number / 7, 4), stream(9000 + number, 6)].concat();
    (0..600).map(key).collect()
}

/// A golden filter block and the keys that RocksDB added to it.
struct Golden {
    name: &'static str,
    block: &'static [u8],
    keys: Vec<Vec<u8>>,
    /// Expected number of false positives among 100,000 absent keys, given the filter's length and
    /// number of probes. It is the mean of two results of the standard formula for Bloom filters:
    /// one for cache lines whose number of keys is one standard deviation above the mean, and one
    /// for cache lines whose number of keys is one standard deviation below the mean.
    others: f64,
}

fn golden() -> Vec<Golden> {
    let with = |(name, block), keys, others| Golden { name, block, keys, others };
    vec![
        with(block!("bloom-1.5"), lengths(), 32_300.0),
        with(block!("bloom-6.5"), lengths(), 2_830.0),
        with(block!("bloom-9.9"), lengths(), 863.0),
        with(block!("bloom-10"), lengths(), 863.0),
        with(block!("bloom-13"), lengths(), 172.0),
        with(block!("bloom-17"), lengths(), 38.0),
        with(block!("bloom-25"), lengths(), 2.4),
        with(block!("bloom-33.333"), lengths(), 0.1),
        with(block!("bloom-70"), lengths(), 0.0),
        with(block!("bloom-long"), long(), 7.0),
        with(block!("bloom-many"), many(5000), 939.0),
        with(block!("bloom-memory"), many(700), 854.0),
        with(block!("legacy-10"), lengths(), 850.0),
        with(block!("legacy-many"), many(3000), 3_600.0),
        with(block!("ribbon-10"), lengths(), 953.0),
        with(block!("ribbon-many"), many(5000), 953.0),
        with(block!("ribbon-5"), many(2000), 9_270.0),
        with(block!("ribbon-22"), many(1000), 8.5),
    ]
}

#[test]
fn every_key_of_the_golden_filters_may_match() {
    let mut all = golden();
    let prefixes = with_prefixes();
    let both: Vec<Vec<u8>> =
        prefixes.iter().flat_map(|key| [key.clone(), key[..4].to_vec()]).collect();
    let alone = prefixes.iter().map(|key| key[..4].to_vec()).collect();
    for ((name, block), keys) in
        [(block!("bloom-prefix"), both), (block!("bloom-prefix-only"), alone)]
    {
        all.push(Golden { name, block, keys, others: 0.0 });
    }
    for Golden { name, block, keys, .. } in all {
        let reader = FilterReader::parse(block);
        for key in &keys {
            assert!(reader.may_contain(&FilterKey::new(key)), "{name}: {} bytes", key.len());
        }
        let hashed: Vec<FilterKey<'_>> = keys.iter().map(|key| FilterKey::new(key)).collect();
        let mut probes = 0;
        reader.may_contain_each(&hashed, |place, may| {
            assert!(may && place == probes, "{name}");
            probes += 1;
        });
        assert_eq!(probes, keys.len());
    }
}

#[test]
fn false_positives_occur_at_the_expected_rate() {
    const OTHERS: u64 = 100_000;
    for Golden { name, block, others: expected, .. } in golden() {
        let reader = FilterReader::with_layout(block, FilterLayout::parse(block));
        let mut found = 0;
        for number in 0..OTHERS {
            let other = stream(1_000_000 + number, 12);
            let key = FilterKey::new(&other);
            let may = reader.may_contain(&key);
            reader.may_contain_each(&[key], |_, each| assert_eq!(each, may));
            found += u64::from(may);
        }
        // The number of false positives may differ from the expected number by chance, because the
        // filters are small. It is the same in every run.
        let (low, high) = (expected * 0.75 - 10.0, expected * 1.25 + 10.0);
        assert!((low..=high).contains(&(found as f64)), "{name}: {found} of {OTHERS}");
    }
}

#[test]
fn the_same_keys_make_the_same_bloom_filters() {
    let bits: [(&str, f64); 12] = [
        ("bloom-1.5", 1.5),
        ("bloom-6.5", 6.5),
        ("bloom-9.9", 9.9),
        ("bloom-10", 10.0),
        ("bloom-13", 13.0),
        ("bloom-17", 17.0),
        ("bloom-25", 25.0),
        ("bloom-33.333", 33.333),
        ("bloom-70", 70.0),
        ("bloom-long", 20.0),
        ("bloom-many", 10.0),
        ("ribbon-10", 0.0),
    ];
    let golden = golden();
    for (name, bits) in bits {
        let Golden { block, keys, .. } = golden.iter().find(|golden| golden.name == name).unwrap();
        let Some(mut builder) = FilterPolicy::bloom(bits).bloom_builder() else {
            assert_eq!(bits, 0.0);
            continue;
        };
        for _ in 0..2 {
            for key in keys {
                builder.add(key);
                builder.add(key);
            }
            assert_eq!(builder.num_entries(), keys.len());
            assert_eq!(builder.block_length(keys.len()), block.len());
            assert!(builder.finish() == *block, "{name}");
            assert_eq!(builder.num_entries(), 0);
        }
        assert!(builder.finish().is_empty());
    }
}

#[test]
fn prefixes_are_added_beside_keys_as_rocksdb_does() {
    let mut keys = with_prefixes();
    keys.sort();
    let mut builder = FilterPolicy::bloom(10.0).bloom_builder().unwrap();
    for key in &keys {
        builder.add_with_prefix(key, &key[..4]);
    }
    // RocksDB recorded these numbers in the properties of the table.
    assert_eq!(builder.num_entries(), 686);
    assert!(builder.finish() == block!("bloom-prefix").1);
    for key in &keys {
        builder.add(&key[..4]);
    }
    assert_eq!(builder.num_entries(), 86);
    assert!(builder.finish() == block!("bloom-prefix-only").1);
}

#[test]
fn reserved_and_empty_forms_are_read_as_rocksdb_reads_them() {
    let key = FilterKey::new(b"any");
    let asks = |block: &[u8]| FilterReader::parse(block).may_contain(&key);
    for length in 0..=5 {
        assert!(!asks(&[0; 5][..length]));
    }
    // RocksDB writes this block if it cannot build a filter.
    assert!(asks(&[0; 6]));
    let bloom = |metadata: [u8; 5]| [&[0u8; 64][..], &metadata].concat();
    assert!(!asks(&bloom([0xff, 0, 6, 0, 0])));
    for reserved in [
        [0xff, 1, 6, 0, 0],
        [0xff, 0, 6, 1, 0],
        [0xff, 0, 6, 0, 1],
        [0xff, 0, 0, 0, 0],
        [0xff, 0, 31, 0, 0],
        [0xff, 0, 6 | 1 << 5, 0, 0],
        [0xfe, 0, 1, 0, 0],
        [0xfd, 0, 0, 0, 0],
        [0x80, 1, 0, 0, 0],
        [6, 0, 0, 0, 0],
        [6, 3, 0, 0, 0],
    ] {
        assert!(asks(&bloom(reserved)), "{reserved:?}");
    }
    // The bits of a legacy filter may be one cache line of 64 bytes or two of 32 bytes: the machine
    // that writes a filter determines the length of the lines.
    assert!(!asks(&bloom([6, 1, 0, 0, 0])));
    assert!(!asks(&bloom([6, 2, 0, 0, 0])));
    // The bits are shorter than one cache line.
    assert!(asks(&[&[0u8; 63][..], &[0xff, 0, 6, 0, 0]].concat()));
}

#[test]
fn damaged_filters_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let asks = |block: &[u8]| {
        let reader = FilterReader::parse(block);
        for number in 0..20 {
            reader.may_contain(&FilterKey::new(&stream(number, 9)));
        }
    };
    for Golden { block, .. } in golden() {
        for _ in 0..50 {
            asks(&block[..random.usize(..block.len())]);
            let mut damaged = block.to_vec();
            let at = damaged.len() - 1 - random.usize(..5);
            damaged[at] = random.u8(..);
            asks(&damaged);
            // This layout does not fit the block with which it is used below: the layout comes from
            // another block.
            let other = FilterLayout::parse(&damaged);
            let short = &block[..random.usize(..block.len())];
            FilterReader::with_layout(short, other).may_contain(&FilterKey::new(b"key"));
        }
    }
    for _ in 0..50_000 {
        let mut block: Vec<u8> = (0..random.usize(..100)).map(|_| random.u8(..)).collect();
        if let [.., marker, _, _, _, _] = &mut block[..]
            && random.bool()
        {
            *marker = random.u8(0xfe..);
        }
        asks(&block);
    }
}

#[test]
fn policies_have_the_names_and_bits_of_rocksdb() {
    assert!(FilterPolicy::read_only().bloom_builder().is_none());
    assert_eq!(FilterPolicy::read_only().name(), "rocksdb.BuiltinBloomFilter");
    assert_eq!(FilterPolicy::bloom(10.0).name(), "bloomfilter");
    assert_eq!(FilterPolicy::ribbon(10.0, 0).name(), "ribbonfilter");
    for (bits, millibits) in
        [(0.4, 0), (0.5, 1000), (0.9, 1000), (9.9, 9900), (1e9, 100_000), (f64::NAN, 100_000)]
    {
        assert_eq!(FilterPolicy::bloom(bits).millibits_per_key(), millibits);
    }
    assert!(FilterPolicy::bloom(0.4).bloom_builder().is_none());
}
