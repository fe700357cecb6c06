//! Tests of the statistics of block reads by compactions, of redundant inserts into the block
//! cache, and of searches that lack a block.

use std::sync::Arc;

use tailwater_format::key::MAX_SEQUENCE;
use tailwater_io::sim::SimStorage;

use super::*;
use crate::db::Db;
use crate::open_options::OpenOptions;
use crate::table::{GetCursors, Lookup, Step};
use crate::write::WriteOptions;

/// Checks that inserting a block that is already in the block cache is counted as a redundant
/// insert, and that a compaction's reads of blocks are not counted as reads of gets.
#[test]
fn redundant_inserts_and_compaction_misses_have_their_own_counts() {
    let statistics = Arc::new(Statistics::new());
    let mut options = OpenOptions::with_storage(Arc::new(SimStorage::new(1)));
    options.set_inline_background(true);
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_statistics(Arc::clone(&statistics));
    let db = Db::open("/db", &options).expect("a database");
    let family = db.cf_handle("default").expect("a family");
    db.put_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a put");
    db.flush_cf(&family).expect("a flush");
    let source = family.super_version();
    let (_, file) = source.version().files().next().expect("a table");
    let table = source.tables().open(file, Purpose::CompactionRead).expect("a table");
    statistics.reset();
    let purpose = Purpose::CompactionRead;
    let profile = ReadProfile::new(purpose, true);
    let ticker = |name: &str| statistics.ticker(name).expect("a ticker");
    for kind in [BlockKind::Index, BlockKind::Filter, BlockKind::Data] {
        // Any block works, since only its kind is counted.
        let handle = table.index_handle();
        for _ in 0..2 {
            table.load_absent(handle, kind, &profile).expect("a block");
        }
        if let Some(cache) = &table.context.block_cache {
            cache.blocks.erase(table.cache_key(handle));
        }
        let name = format!("{kind:?}").to_lowercase();
        assert_eq!(ticker(&format!("rocksdb.block.cache.{name}.add")), 2, "{name}");
        assert_eq!(ticker(&format!("rocksdb.block.cache.{name}.add.redundant")), 1, "{name}");
    }
    assert_eq!(ticker("rocksdb.block.cache.add"), 6);
    assert_eq!(ticker("rocksdb.block.cache.add.redundant"), 3);
    let reads = |name: &str| statistics.histogram(name).expect("a histogram").count;
    assert_eq!(reads("rocksdb.read.block.compaction.micros"), 6);
    assert_eq!(reads("rocksdb.read.block.get.micros"), 0);
}

/// Checks that a search in memory names the block that it lacks, and that the search succeeds once
/// the block is in the cache.
#[test]
fn a_search_in_memory_names_the_missing_block() {
    let mut options = OpenOptions::with_storage(Arc::new(SimStorage::new(1)));
    options.set_inline_background(true);
    options.set_from_string("create_if_missing=true").expect("options");
    let db = Db::open("/db", &options).expect("a database");
    let family = db.cf_handle("default").expect("a family");
    db.put_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a put");
    db.flush_cf(&family).expect("a flush");
    let source = family.super_version();
    let (_, file) = source.version().files().next().expect("a table");
    let table = source.tables().open(file, Purpose::UserRead).expect("a table");
    let profile = ReadProfile::new(Purpose::UserRead, true);
    let mut handles = Vec::new();
    table.for_each_data_block(&profile, |_, handle| handles.push(handle)).expect("an index");
    let search = || {
        let (guard, mut value) = (epoch::pin(), Vec::new());
        let mut lookup = Lookup::new(b"a", MAX_SEQUENCE, &mut value);
        table.get(&Resident::new(&guard), &mut lookup, &mut GetCursors::default())
    };
    match search() {
        Err(Stop::Unreachable(missing)) => {
            assert_eq!(missing, Missing::Block(handles[0], BlockKind::Data));
        }
        found => panic!("{found:?}"),
    }
    table.load(handles[0], BlockKind::Data, &profile).expect("a block");
    assert!(matches!(search(), Ok(Step::Done)));
}
