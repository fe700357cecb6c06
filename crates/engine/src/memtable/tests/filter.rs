//! Tests that the filter is used.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_format::key::{MAX_SEQUENCE, ValueType};

use super::Counting;
use crate::memtable::{Account, FilterSettings, MemTable};
use crate::options::ColumnFamilyOptions;

#[test]
fn a_get_of_an_absent_key_compares_no_keys_if_there_is_a_filter() {
    let options = ColumnFamilyOptions {
        memtable_whole_key_filtering: true,
        memtable_prefix_bloom_size_ratio: 0.1,
        write_buffer_size: 1 << 16,
        ..ColumnFamilyOptions::default()
    };
    let settings = FilterSettings::new(&options, None);
    for filter in [settings.as_ref(), None] {
        let counting = Arc::<Counting>::default();
        let comparator = Comparator::Custom(Arc::clone(&counting) as Arc<dyn CustomComparator>);
        let memtable = MemTable::new(comparator, filter, Account::default());
        for (sequence, key) in [(1, b"a"), (2, b"c")] {
            memtable.add(sequence, ValueType::Value, key, b"").unwrap();
        }
        let comparisons = |key: &[u8], is_there| {
            let before = counting.0.load(Relaxed);
            assert_eq!(memtable.versions(key, MAX_SEQUENCE).next().is_some(), is_there);
            counting.0.load(Relaxed) - before
        };
        assert_eq!(comparisons(b"b", false) == 0, filter.is_some());
        assert!(comparisons(b"c", true) > 0);
    }
}
