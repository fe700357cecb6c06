//! Opens databases that this program wrote on another library, checks their contents, and changes
//! them.
//!
//! usage: `exchange DIRECTORY ROUND`
//!
//! There is one database for each set of options. The changes of a round depend on its number only,
//! so the program knows what earlier rounds have left.

use std::collections::BTreeMap;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompactionStyle,
    DBCompressionType, DataBlockIndexType, FifoCompactOptions, IteratorMode, MergeOperands, Options,
    ReadOptions, SliceTransform, WriteBatch,
};

/// Number of sets of options.
const SETS: u64 = 14;
/// Number of changes of a round.
const CHANGES: u64 = 400;
const FAMILIES: [&str; 3] = ["default", "one", "two"];

type Contents = BTreeMap<(usize, Vec<u8>), Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn join(_key: &[u8], existing: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let mut joined = existing.map(<[u8]>::to_vec).unwrap_or_default();
    for operand in operands {
        joined.extend_from_slice(operand);
    }
    Some(joined)
}

fn options(set: u64) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_size(64 << 10);
    options.set_target_file_size_base(16 << 10);
    options.set_max_bytes_for_level_base(64 << 10);
    options.set_merge_operator_associative("exchange.Join", join);
    let mut table = BlockBasedOptions::default();
    match set {
        0 => {}
        1 => {
            options.set_compression_type(DBCompressionType::Snappy);
            table.set_bloom_filter(10.0, false);
        }
        2 => {
            options.set_compression_type(DBCompressionType::Lz4);
            table.set_ribbon_filter(10.0);
            table.set_format_version(5);
        }
        3 => {
            options.set_compression_type(DBCompressionType::Zstd);
            options.set_bottommost_compression_type(DBCompressionType::Zstd);
            options.set_bottommost_compression_options(-14, 3, 0, 4096, true);
            options.set_bottommost_zstd_max_train_bytes(40_960, true);
            table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            table.set_partition_filters(true);
            table.set_bloom_filter(10.0, false);
            table.set_metadata_block_size(512);
        }
        4 => {
            options.set_compression_type(DBCompressionType::Zlib);
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(3));
            options.set_memtable_prefix_bloom_ratio(0.1);
            table.set_hybrid_ribbon_filter(10.0, 1);
            table.set_whole_key_filtering(false);
        }
        5 => options.set_compaction_style(DBCompactionStyle::Universal),
        6 => {
            options.set_compaction_style(DBCompactionStyle::Fifo);
            let mut fifo = FifoCompactOptions::default();
            fifo.set_max_table_files_size(1 << 30);
            options.set_fifo_compaction_options(&fifo);
        }
        7 => options.set_comparator("exchange.Backwards", Box::new(|a, b| b.cmp(a))),
        8 => {
            options.set_level_compaction_dynamic_level_bytes(false);
            options.set_num_levels(4);
            options.set_compression_per_level(&[
                DBCompressionType::None,
                DBCompressionType::Snappy,
                DBCompressionType::Lz4hc,
                DBCompressionType::Zstd,
            ]);
        }
        9 => {
            table.disable_cache();
            table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
            table.set_data_block_hash_ratio(0.75);
            table.set_block_restart_interval(1);
            options.set_wal_compression_type(DBCompressionType::Zstd);
        }
        10 => {
            options.set_manual_wal_flush(true);
            options.set_recycle_log_file_num(2);
            options.set_enable_pipelined_write(true);
            table.set_block_size(512);
            table.set_cache_index_and_filter_blocks(true);
            table.set_block_cache(&Cache::new_hyper_clock_cache(1 << 20, 0));
        }
        11 => {
            options.set_use_direct_reads(true);
            options.set_use_direct_io_for_flush_and_compaction(true);
            options.set_compression_type(DBCompressionType::None);
        }
        12 => {
            options.set_compaction_filter("exchange.Keep", |_, _, _| rocksdb::CompactionDecision::Keep);
            options.set_atomic_flush(true);
            options.set_max_subcompactions(2);
        }
        _ => {
            options.optimize_for_point_lookup(4);
            return options;
        }
    }
    options.set_block_based_table_factory(&table);
    options
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("key{:03}", random.below(300)).into_bytes()
}

/// Makes the changes of a round: in the expected contents and, unless it is `None`, in a database.
fn change(set: u64, round: u64, contents: &mut Contents, db: Option<&DB>) {
    let mut random = Random(round * 1000 + set);
    let mut batch = WriteBatch::default();
    for number in 0..CHANGES {
        let family = random.below(3) as usize;
        let key = key(&mut random);
        let value = format!("{round}-{number}-").repeat(1 + random.below(20) as usize).into_bytes();
        let handle = db.map(|db| db.cf_handle(FAMILIES[family]).expect("a family"));
        let kind = random.below(20);
        match kind {
            0..10 => {
                handle.inspect(|handle| batch.put_cf(handle, &key, &value));
                contents.insert((family, key), value);
            }
            10..14 => {
                handle.inspect(|handle| batch.delete_cf(handle, &key));
                contents.remove(&(family, key));
            }
            14..19 => {
                handle.inspect(|handle| batch.merge_cf(handle, &key, b"merged"));
                contents.entry((family, key)).or_default().extend_from_slice(b"merged");
            }
            _ => {
                let mut end = key.clone();
                end.push(b'9');
                // Backwards, the longer key comes first.
                let (from, to) = if set == 7 { (&end, &key) } else { (&key, &end) };
                handle.inspect(|handle| batch.delete_range_cf(handle, from, to));
                let is_kept = |(other, found): &(usize, Vec<u8>)| {
                    *other != family || *found != if set == 7 { end.clone() } else { key.clone() }
                };
                contents.retain(|place, _| is_kept(place));
            }
        }
        if let Some(db) = db
            && (number % 7 == 0 || number + 1 == CHANGES)
        {
            db.write(std::mem::take(&mut batch)).expect("a write");
            if number % 100 == 98 {
                db.flush().expect("a flush");
            }
        }
    }
}

fn check(set: u64, contents: &Contents, db: &DB) {
    for (number, name) in FAMILIES.iter().enumerate() {
        let family = db.cf_handle(name).expect("a family");
        let mut reads = ReadOptions::default();
        reads.set_total_order_seek(true);
        let found: Vec<(Vec<u8>, Vec<u8>)> = db
            .iterator_cf_opt(&family, reads, IteratorMode::Start)
            .map(|entry| entry.map(|(key, value)| (key.into(), value.into())).expect("an entry"))
            .collect();
        let mut expected: Vec<(Vec<u8>, Vec<u8>)> = contents
            .iter()
            .filter(|((family, _), _)| *family == number)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        if set == 7 {
            expected.reverse();
        }
        assert!(found == expected, "set {set}, family {name}: other contents");
        for (key, value) in expected.iter().step_by(7) {
            assert_eq!(db.get_cf(&family, key).expect("a get").as_ref(), Some(value));
        }
        assert_eq!(db.get_cf(&family, "none").expect("a get"), None);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let directory = &arguments[1];
    let round: u64 = arguments[2].parse().expect("a number");
    for set in 0..SETS {
        let path = format!("{directory}/{set}");
        let families = FAMILIES.iter().map(|name| ColumnFamilyDescriptor::new(*name, options(set)));
        let db = DB::open_cf_descriptors(&options(set), &path, families)
            .unwrap_or_else(|error| panic!("set {set}, round {round}: {error}"));
        let mut contents = Contents::new();
        (0..round).for_each(|earlier| change(set, earlier, &mut contents, None));
        check(set, &contents, &db);
        change(set, round, &mut contents, Some(&db));
        check(set, &contents, &db);
        if round % 3 == 0 {
            for name in FAMILIES {
                let family = db.cf_handle(name).expect("a family");
                db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
            }
            check(set, &contents, &db);
        }
        db.flush_wal(true).expect("a synced log");
    }
}
