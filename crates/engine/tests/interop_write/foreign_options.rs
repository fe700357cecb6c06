//! Options of RocksDB for features that Tailwater lacks. RocksDB creates databases with these
//! options, then Tailwater writes to them, then RocksDB again. Each engine uses the OPTIONS file
//! that the other one wrote.
//!
//! Regression test: Tailwater refused to write to such databases, although these options affect
//! neither the entries nor the results of reads, nor whether RocksDB can open the database again.

use std::collections::BTreeMap;

use fastrand::Rng;
use tailwater::{CompactRangeOptions, Db, OpenOptions};
use tailwater_testkit::oracle::Script;

use crate::laboratory::{self, Laboratory, in_laboratory};
use crate::options_file::{entries, newest};
use crate::place::Place;
use crate::shape::{Shape, join};

/// Number of random option sets per round.
const DRAWS: usize = 8;

/// Number of random steps for each set of options.
const STEPS: usize = 150;

/// Options of a database. The test chooses one string of each inner list at random.
const OF_DATABASE: &[&[&str]] = &[
    &["", "track_and_verify_wals_in_manifest=true"],
    &["", "verify_manifest_content_on_close=true"],
    &["", "best_efforts_recovery=true"],
    &["", "file_checksum_gen_factory=FileChecksumGenCrc32cFactory"],
    &["", "metadata_write_temperature=kHot;wal_write_temperature=kWarm"],
    &["", "open_files_async=true;skip_stats_update_on_db_open=true"],
    &["", "enable_thread_tracking=true;dump_malloc_stats=true;use_adaptive_mutex=true"],
];

/// Options of a column family. The test chooses one string of each inner list at random.
const OF_FAMILY: &[&[&str]] = &[
    &[
        "",
        "memtable_protection_bytes_per_key=8",
        "memtable_protection_bytes_per_key=1;memtable_verify_per_key_checksum_on_seek=true",
    ],
    &["", "block_protection_bytes_per_key=4"],
    &["", "paranoid_memory_checks=true"],
    &["", "last_level_temperature=kCold;default_write_temperature=kWarm;default_temperature=kHot"],
    // At most one of these is chosen, since RocksDB loses blobs if blob files are combined with
    // options that keep young data out of the last level.
    &[
        "",
        "preserve_internal_time_seconds=3600",
        "preclude_last_level_data_seconds=60",
        "enable_blob_files=true;min_blob_size=16;enable_blob_garbage_collection=true",
    ],
    &[
        "",
        "compression=kZSTD;compression_opts={max_dict_bytes=4096;zstd_max_train_bytes=16384}",
        "bottommost_compression=kZlibCompression;\
         bottommost_compression_opts={enabled=true;level=12;max_dict_bytes=4096}",
    ],
    &["", "sst_partitioner_factory={id=SstPartitionerFixedPrefix;length=3}"],
    &[
        "",
        "table_properties_collectors={id=CompactOnDeletionCollector;window_size=9;\
         deletion_trigger=7;deletion_ratio=0.5}",
    ],
    &["", "compaction_style=kCompactionStyleUniversal;num_levels=4"],
    &["", "memtable_avg_op_scan_flush_trigger=20;memtable_op_scan_flush_trigger=100"],
];

/// Options of tables. The test chooses one string of each inner list at random.
const OF_TABLE: &[&[&str]] = &[
    &[
        "",
        "index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=200",
        "index_type=kBinarySearchWithFirstKey",
    ],
    &["", "filter_policy=bloomfilter:10:false", "filter_policy=ribbonfilter:10:2"],
    &["", "format_version=2", "format_version=4", "format_version=6"],
    &["", "separate_key_value_in_data_block=true"],
    &["", "super_block_alignment_size=131072;super_block_alignment_space_overhead_ratio=32"],
    &["", "read_amp_bytes_per_bit=32"],
    &["", "block_size=512"],
];

fn draw(rng: &mut Rng, choices: &[&[&str]]) -> String {
    let drawn: Vec<&str> = choices.iter().map(|values| values[rng.usize(..values.len())]).collect();
    join(&drawn)
}

/// Returns a description of a database with random options.
fn shape(rng: &mut Rng) -> Shape {
    let table = draw(rng, OF_TABLE);
    let family = join(&[
        &draw(rng, OF_FAMILY),
        &format!("block_based_table_factory={{{table}}}"),
        "level0_file_num_compaction_trigger=3",
    ]);
    Shape::new(&draw(rng, OF_DATABASE), &family)
}

#[test]
fn databases_with_unsupported_rocksdb_features_stay_usable() {
    in_laboratory("databases with options that ours does without", |laboratory| {
        for draw in 0..DRAWS {
            let shape = shape(&mut laboratory.rng);
            let context = format!("{}, draw {draw}, {shape:?}", laboratory.context);
            let place = laboratory.next_place();
            goes_on(laboratory, &shape, &place, &context);
        }
    });
}

/// Asserts that every entry of the OPTIONS file `before` is also in the OPTIONS file `after`,
/// except those about the column families `gone`, which no longer exist or were created again.
fn assert_kept(before: &str, after: &str, gone: &[String], context: &str) {
    let after = entries(after);
    for entry in entries(before) {
        let (section, name, _) = &entry;
        let is_gone = gone.iter().any(|family| section.contains(&format!("\"{family}\"")));
        let now = after.iter().find(|(other, known, _)| (other, known) == (section, name));
        assert!(is_gone || now == Some(&entry), "{context}: {entry:?} became {now:?}");
    }
}

/// Returns the names of a database's column families, with their ids.
fn families(db: &Db) -> BTreeMap<String, u32> {
    db.column_families().iter().map(|family| (family.name().to_owned(), family.id())).collect()
}

fn goes_on(laboratory: &mut Laboratory, shape: &Shape, place: &Place, context: &str) {
    let mut model = shape.model();
    let mut script = shape.describe(place, &model, "");
    script.line(&[&"open"]);
    laboratory.rocksdb_does(&script, context);
    let steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
    laboratory.rocksdb_finds(steps, &model, context);
    laboratory.rocksdb_closes(context);
    for round in 0..2 {
        let context = format!("{context}, round {round}");
        let (_, before) = newest(place);
        let options = OpenOptions::load(place.database())
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        let db = Db::open(place.database(), &options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        crate::check::holds(&db, &model.dump(), &context);
        let opened = families(&db);
        laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
        let now = families(&db);
        let gone = opened.into_iter().filter(|(name, id)| now.get(name) != Some(id));
        let gone: Vec<String> = gone.map(|(name, _)| name).collect();
        for family in db.column_families() {
            db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default())
                .unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        crate::check::holds(&db, &model.dump(), &context);
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        drop(db);
        let (_, after) = newest(place);
        assert_kept(&before, &after, &gone, &context);

        let mut script = Script::describe(&place.database(), "", &[]);
        script.line(&[&"load"]);
        script.line(&[&"open-existing"]);
        script.line(&[&"verify"]);
        laboratory.rocksdb_finds(script, &model, &context);
        let mut steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
        for (family, _) in model.families() {
            steps.compact(family);
        }
        laboratory.rocksdb_finds(steps, &model, &context);
        laboratory.rocksdb_closes(&context);
    }
}
