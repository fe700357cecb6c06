//! Tests of the blocks that are kept while a seek is prepared.

use std::sync::Weak;

use tailwater_format::Comparator;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{IoMode, Purpose, Storage};
use tailwater_testkit::golden;

use super::*;
use crate::prefix_extractor::PrefixExtractor;
use crate::stats::Statistics;
use crate::table::{Kept, MetaBlockPlacement, ReadPlan, TableContext, TableIdentity};

const PROFILE: ReadProfile = ReadProfile::new(Purpose::UserRead, false);

/// Returns the tables with a filter over prefixes of a golden database, each with the extractor of
/// the prefixes. Neither indexes nor filters are in memory.
fn tables(statistics: &Arc<Statistics>) -> Vec<(Arc<TableReader>, PrefixExtractor)> {
    let directory = golden::unpack("formats");
    let mut context = TableContext::clone(&TableContext::standalone(Comparator::Bytewise, None));
    context.meta_blocks =
        MetaBlockPlacement { roots: Kept::Never, whole: Kept::Never, high_priority: false };
    context.statistics = Some(Arc::clone(statistics));
    let context = Arc::new(context);
    let mut tables = Vec::new();
    for name in golden::files("formats").into_keys().filter(|name| name.ends_with(".sst")) {
        let path = directory.path().join(name);
        let file = PosixStorage::new().open(&path, IoMode::Buffered, Purpose::UserRead).unwrap();
        let cache_id = tables.len() as u64;
        let identity = TableIdentity { cache_id, ..TableIdentity::default() };
        let context = Arc::clone(&context);
        let table = TableReader::open(file, context, &identity, Purpose::UserRead).unwrap();
        let extractor = &table.properties().prefix_extractor_name;
        let extractor = str::from_utf8(extractor).ok().and_then(PrefixExtractor::built_in);
        if let Some(extractor) = extractor
            && table.filters_by(Some(&extractor))
        {
            tables.push((Arc::new(table), extractor));
        }
    }
    tables
}

/// Returns the internal keys of a table.
fn keys(table: &Arc<TableReader>) -> Vec<Vec<u8>> {
    let mut iterator = TableIterator::new(Arc::clone(table), PROFILE, &ReadPlan::growing());
    let mut keys = Vec::new();
    iterator.seek_to_first().unwrap();
    while iterator.valid() {
        keys.push(iterator.key().to_vec());
        iterator.next().unwrap();
    }
    keys
}

fn iterator(table: &Arc<TableReader>, extractor: &PrefixExtractor) -> TableIterator {
    let mut iterator = TableIterator::new(Arc::clone(table), PROFILE, &ReadPlan::growing());
    iterator.set_prefixes(Some(extractor.clone()));
    iterator.ask_prefix_filter(true);
    iterator
}

#[test]
fn blocks_of_the_filter_are_dropped_once_it_has_answered() {
    let (mut filters, mut seeks) = (0, 0);
    for (table, extractor) in tables(&Arc::default()) {
        for key in keys(&table).iter().step_by(37) {
            let mut iterator = iterator(&table, &extractor);
            let mut of_filter: Option<Weak<Cached<Block>>> = None;
            while let Some(wanted) = iterator.prepare(SeekTo::AtOrAfter(key)) {
                let block = table.load_absent(wanted.handle, wanted.kind, &PROFILE).unwrap();
                let is_answered = iterator.preparation.prepared.is_some();
                assert!(
                    !is_answered || of_filter.as_ref().is_none_or(|it| it.strong_count() == 0),
                    "{wanted:?}"
                );
                if wanted.kind == BlockKind::Filter {
                    of_filter = Some(Arc::downgrade(&block));
                    filters += 1;
                }
                let is_data = wanted.kind == BlockKind::Data;
                iterator.hand_over(&wanted, block);
                if is_data {
                    break;
                }
            }
            iterator.seek(key).unwrap();
            assert_eq!(iterator.key(), &key[..]);
            seeks += 1;
        }
    }
    assert!(filters > 0 && filters == seeks, "{filters} filters, {seeks} seeks");
}

/// Regression test: a block that was in the cache was looked up, and counted as a hit, in each
/// round in which the seek needed it.
#[test]
fn a_cached_block_counts_as_one_hit_of_a_seek() {
    let statistics = Arc::new(Statistics::new());
    let filling = ReadProfile { fill_cache: true, ..PROFILE };
    let (table, _) = tables(&statistics).pop().unwrap();
    let (handle, kind) = (table.index_handle(), BlockKind::Index);
    table.load(handle, kind, &filling).unwrap();
    let hits = || statistics.ticker("rocksdb.block.cache.index.hit").unwrap();
    let before = hits();
    let access = InMemory { known: RefCell::default(), profile: &PROFILE };
    for _ in 0..3 {
        assert!(access.block(&table, handle, kind).is_ok());
    }
    assert_eq!(hits() - before, 1);
    let missing = BlockHandle { offset: handle.offset + 1, ..handle };
    assert!(matches!(access.block(&table, missing, kind), Err(Stop::Unreachable(_))));
}
