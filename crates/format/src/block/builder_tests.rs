//! Tests that the block builders, given the entries of a table that RocksDB wrote, produce the
//! bytes of that table.

use super::golden::{self, Entry, Table, entries, index_entries, table, tables};
use super::{Builder, BuilderOptions, IndexBuilder, IndexBuilderOptions, IndexShortening, Layout};
use crate::table::{BlockHandle, IndexType, meta};

/// Returns the options with which RocksDB wrote the data blocks of a table.
fn options(table: &Table) -> BuilderOptions {
    BuilderOptions {
        restart_interval: table.properties.data_block_restart_interval as u32,
        delta_keys: !matches!(table.name, "apart-1" | "whole-keys"),
        values_apart: table.properties.separate_key_value_in_data_block,
        hash_index_utilization: match table.name {
            "hash" | "hash-many" => Some(0.75),
            "hash-apart" => Some(0.5),
            _ => None,
        },
    }
}

/// Returns the option `block_size` with which RocksDB wrote a table, in bytes.
fn block_size(table: &Table) -> usize {
    match table.name {
        "hash" | "ranges" => 512,
        "hash-many" => 5400,
        "super-aligned" => 128,
        "boundaries" => 96,
        "partitions" | "partitions-old" | "uniform" => 64,
        name if name.starts_with("interval") => 1024,
        name if name.starts_with("index") => 64,
        _ => 256,
    }
}

/// Returns a length in bytes. If a block is longer than this and the next entry would make it
/// longer than `size`, RocksDB ends the block before that entry. The length is `size` reduced by
/// `block_size_deviation` per cent.
fn almost_full(table: &Table, size: usize) -> usize {
    let deviation = if table.name == "boundaries" { 90 } else { 10 };
    (size * (100 - deviation)).div_ceil(100)
}

fn add_all(builder: &mut Builder, entries: &[Entry]) {
    for entry in entries {
        builder.add(&entry.key, &entry.value);
        assert_eq!(builder.last_key(), entry.key);
    }
}

#[test]
fn data_blocks_are_rebuilt_byte_for_byte() {
    for table in tables() {
        let mut builder = Builder::new(options(&table));
        let mut out = b"before".to_vec();
        for block in table.data_blocks() {
            assert!(builder.is_empty());
            add_all(&mut builder, &entries(block));
            assert_eq!(builder.size_estimate(), block.len(), "{}", table.name);
            out.truncate(6);
            builder.finish(&mut out).unwrap();
            assert_eq!(out, [b"before", block].concat(), "{}", table.name);
        }
    }
}

#[test]
fn meta_blocks_are_rebuilt_byte_for_byte() {
    let mut ranges = 0;
    for table in tables() {
        let metaindex = Some((table.metaindex(), BuilderOptions::META));
        let block = |name, options| Some((table.meta_block(name)?, options));
        let blocks = [
            metaindex,
            block(meta::PROPERTIES, BuilderOptions::PROPERTIES),
            block(meta::RANGE_DELETIONS, BuilderOptions::META),
        ];
        for (block, options) in blocks.into_iter().flatten() {
            let (mut builder, mut out) = (Builder::new(options), Vec::new());
            add_all(&mut builder, &entries(block));
            builder.finish(&mut out).unwrap();
            assert_eq!(out, block, "{}", table.name);
        }
        ranges += usize::from(blocks[2].is_some());
    }
    assert_eq!(ranges, 1);
}

#[test]
fn blocks_are_cut_where_rocksdb_cuts_them() {
    for table in tables() {
        let size = block_size(&table);
        let almost_full = almost_full(&table, size);
        let aligned = table.name == "aligned";
        let mut builder = Builder::new(options(&table));
        for (number, block) in table.data_blocks().into_iter().enumerate() {
            for (place, entry) in entries(block).iter().enumerate() {
                let (now, key, value) =
                    (builder.size_estimate(), entry.key.len(), entry.value.len());
                let then = builder.size_estimate_with(key, value);
                let ends = !builder.is_empty()
                    && (now >= size
                        || if aligned {
                            then + 5 > size
                        } else {
                            then > size && now > almost_full
                        });
                let begins = place == 0 && number > 0;
                assert_eq!(ends, begins, "{} block {number} entry {place}", table.name);
                if ends {
                    builder.finish(&mut Vec::new()).unwrap();
                }
                builder.add(&entry.key, &entry.value);
            }
        }
    }
}

#[test]
fn an_abandoned_hash_index_stays_off_for_the_rest_of_a_table() {
    let table = table("hash-many");
    let blocks = table.data_blocks();
    let mut builder = Builder::new(options(&table));
    let has_hash_index = |builder: &mut Builder, block: &[u8]| {
        let mut out = Vec::new();
        add_all(builder, &entries(block));
        builder.finish(&mut out).unwrap();
        Layout::parse(&out).unwrap().has_hash_index()
    };
    // The first block has 282 restarts, too many for a hash index. After such a block, the builder
    // writes no hash index until `reset`, so the second block gets none either.
    assert!(!has_hash_index(&mut builder, blocks[0]));
    assert!(!has_hash_index(&mut builder, blocks[1]));
    builder.reset();
    assert!(has_hash_index(&mut builder, blocks[1]));
}

#[test]
fn a_hash_index_is_left_out_of_a_large_block() {
    let options =
        BuilderOptions { hash_index_utilization: Some(0.75), ..BuilderOptions::default() };
    let mut builder = Builder::new(options);
    for (value, expected) in [(vec![0; 65_000], true), (vec![0; 66_000], false)] {
        let mut out = Vec::new();
        builder.add(b"key\0\0\0\0\0\0\0\0", &value);
        builder.finish(&mut out).unwrap();
        assert_eq!(Layout::parse(&out).unwrap().has_hash_index(), expected);
    }
}

#[test]
fn a_warm_builder_exchanges_its_buffer_and_allocates_none() {
    let table = table("interval-4");
    let block = table.data_blocks()[0];
    let entries = entries(block);
    let mut builder = Builder::new(options(&table));
    let mut out = Vec::new();
    let mut places = Vec::new();
    for _ in 0..6 {
        out.clear();
        add_all(&mut builder, &entries);
        builder.finish(&mut out).unwrap();
        assert_eq!(out, block);
        places.push((out.as_ptr(), out.capacity()));
    }
    // `out` and the builder exchange two buffers. Neither is reallocated once each has held a
    // block.
    assert_eq!(places[2], places[4]);
    assert_eq!(places[3], places[5]);
    assert_ne!(places[2], places[3]);
}

#[test]
fn an_empty_block_is_a_restart_and_a_footer() {
    let mut out = Vec::new();
    Builder::new(BuilderOptions::META).finish(&mut out).unwrap();
    assert_eq!(out, [0, 0, 0, 0, 1, 0, 0, 0]);
    assert!(Layout::parse(&out).unwrap().is_empty());
}

#[test]
fn builders_and_the_plain_reader_agree_on_random_entries() {
    let given = std::env::var("TAILWATER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(|| fastrand::u64(..));
    println!("TAILWATER_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let mut keys: Vec<Vec<u8>> = (0..random.usize(1..200))
            .map(|_| (0..random.usize(..40)).map(|_| random.u8(b'a'..b'c')).collect())
            .collect();
        keys.sort();
        keys.dedup();
        let options = BuilderOptions {
            restart_interval: random.u32(..20),
            delta_keys: random.bool(),
            values_apart: random.bool(),
            hash_index_utilization: random.bool().then(|| random.f64()),
        };
        let mut builder = Builder::new(options);
        let added: Vec<(Vec<u8>, Vec<u8>)> = keys
            .into_iter()
            .map(|user_key| ([&user_key[..], &[1; 8]].concat(), vec![7; random.usize(..300)]))
            .collect();
        for (key, value) in &added {
            builder.add(key, value);
        }
        let (mut out, estimate) = (Vec::new(), builder.size_estimate());
        builder.finish(&mut out).unwrap();
        let hashed = Layout::parse(&out).unwrap().has_hash_index();
        assert!(estimate == out.len() || (options.hash_index_utilization.is_some() && !hashed));
        let found: Vec<_> =
            golden::entries(&out).into_iter().map(|entry| (entry.key, entry.value)).collect();
        assert_eq!(found, added, "{options:?}");
    }
}

/// Returns the option `index_shortening` with which RocksDB wrote a table.
fn shortening(table: &Table) -> IndexShortening {
    match table.name {
        "first-key" | "uniform" => IndexShortening::None,
        "successor" => IndexShortening::SeparatorsAndSuccessor,
        _ => IndexShortening::default(),
    }
}

fn index_options(table: &Table) -> IndexBuilderOptions {
    IndexBuilderOptions {
        restart_interval: table.properties.index_block_restart_interval as u32,
        format: table.index_format(),
        internal_keys: matches!(
            table.name,
            "interval-1" | "interval-7" | "interval-13" | "index-5"
        ),
    }
}

/// A data block, as an index block describes it, and its last key.
struct DataBlock {
    separator: Vec<u8>,
    handle: BlockHandle,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
}

/// Returns the data blocks of a table in order, and whether every two adjacent blocks contain
/// different user keys. If so, the index needs only user keys.
fn data_blocks(table: &Table) -> (Vec<DataBlock>, bool) {
    let blocks: Vec<Vec<Entry>> = table.data_blocks().into_iter().map(entries).collect();
    let index = table.index_blocks();
    let leaves = if index.len() > 1 { &index[1..] } else { &index[..] };
    let handles: Vec<BlockHandle> = leaves
        .iter()
        .flat_map(|block| index_entries(block, table.index_format()))
        .map(|entry| entry.handle)
        .collect();
    let mut user_keys = true;
    let mut found = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let next = blocks.get(number + 1).map(|next| &next[0].key[..]);
        let last = &block[block.len() - 1].key;
        let mut separator = Vec::new();
        user_keys &= shortening(table).separate(&table.comparator(), last, next, &mut separator);
        found.push(DataBlock {
            separator,
            handle: handles[number],
            first_key: block[0].key.clone(),
            last_key: last.clone(),
        });
    }
    (found, user_keys)
}

#[test]
fn index_blocks_are_rebuilt_byte_for_byte() {
    for table in tables() {
        let (data_blocks, user_keys) = data_blocks(&table);
        let options = index_options(&table);
        let user_keys = user_keys && !options.internal_keys;
        assert_eq!(user_keys, table.properties.index_key_is_user_key, "{}", table.name);
        let two_levels = table.properties.index_type == Some(IndexType::TwoLevelIndexSearch);
        let index = table.index_blocks();
        let leaves = if two_levels { &index[1..] } else { &index[..] };

        let mut builder = IndexBuilder::new(options);
        let mut rest = &data_blocks[..];
        let mut partition_keys = Vec::new();
        for block in leaves {
            let (these, others) = rest.split_at(index_entries(block, options.format).len());
            for block in these {
                builder.add(&block.separator, block.handle, &block.first_key);
            }
            assert!(!builder.is_empty());
            partition_keys.push(these[these.len() - 1].separator.clone());
            rest = others;
            check_index(&table, &mut builder, block, user_keys);
        }
        assert!(rest.is_empty());
        if two_levels {
            let handles = index_entries(index[0], options.format);
            for (separator, entry) in partition_keys.iter().zip(handles) {
                builder.add(separator, entry.handle, &[]);
            }
            check_index(&table, &mut builder, index[0], user_keys);
        }
    }
}

fn check_index(table: &Table, builder: &mut IndexBuilder, block: &[u8], user_keys: bool) {
    if !user_keys {
        builder.require_internal_keys();
    }
    assert_eq!(builder.internal_keys(), !user_keys);
    assert_eq!(builder.size_estimate(), block.len(), "{}", table.name);
    let mut out = Vec::new();
    builder.finish(&mut out).unwrap();
    if table.name == "uniform" {
        // The keys of this block are evenly spread. RocksDB sets a flag for that, which the builder
        // does not.
        out[block.len() - 1] |= 1 << 5;
    }
    assert_eq!(out, block, "{}", table.name);
    assert!(builder.is_empty());
}

#[test]
fn partitions_are_cut_where_rocksdb_cuts_them() {
    for (name, size) in [("partitions", 96), ("partitions-old", 128), ("boundaries", 100)] {
        let table = table(name);
        let options = index_options(&table);
        let (data_blocks, _) = data_blocks(&table);
        let mut builder = IndexBuilder::new(options);
        let mut lengths = vec![0];
        for (number, block) in data_blocks.iter().enumerate() {
            // RocksDB's estimate uses the last key of the data block instead of the separator.
            // RocksDB also never ends a partition just before the entry of the last data block.
            let now = builder.size_estimate();
            let then = builder.size_estimate_with(block.last_key.len(), block.handle);
            let full = now >= size || (then > size && now > almost_full(&table, size));
            if full && !builder.is_empty() && number + 1 < data_blocks.len() {
                builder.finish(&mut Vec::new()).unwrap();
                lengths.push(0);
            }
            builder.add(&block.separator, block.handle, &[]);
            *lengths.last_mut().unwrap() += 1;
        }
        let expected: Vec<usize> = table.index_blocks()[1..]
            .iter()
            .map(|block| index_entries(block, options.format).len())
            .collect();
        assert_eq!(lengths, expected, "{name}");
    }
}
