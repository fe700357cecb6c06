//! Effects of the options of memtables, writes and write stalls.

use tailwater::{ErrorKind, StallCause, StallState, WriteOptions};

use super::support::open;

/// Options for tests that pause compactions. If only a compaction can end a stall, the stall lasts
/// as long as the pause.
const PAUSED: &str = "level0_file_num_compaction_trigger=2;compression=kNoCompression";

/// Returns the stall state after `tables` flushes while compactions are paused.
fn stall_after(text: &str, tables: usize) -> StallState {
    let scene = open(&format!("{PAUSED};{text}"));
    let _pause = scene.db.pause_compactions().expect("a pause");
    for _ in 0..tables {
        scene.fill(0, 100, 1000);
        scene.flush();
    }
    scene.db.stall_state()
}

fn cause(state: &StallState) -> Option<(bool, StallCause)> {
    match state {
        StallState::Normal => None,
        StallState::Delayed { cause, .. } => Some((false, *cause)),
        StallState::Stopped { cause, .. } => Some((true, *cause)),
        state => panic!("{state:?}"),
    }
}

effects! {
    a_memtable_is_bounded shows "write_buffer_size" {
        for (text, is_flushed) in [("", false), ("write_buffer_size=64k", true)] {
            let scene = open(text);
            scene.fill(0, 200, 1000);
            assert_eq!(scene.level_0() > 0, is_flushed, "{text}");
        }
    }

    memtables_have_filters shows "memtable_prefix_bloom_size_ratio", "memtable_whole_key_filtering" {
        const RATIO: &str = "memtable_prefix_bloom_size_ratio=0.25;write_buffer_size=1m";
        for (text, has_filter) in [
            ("", false),
            ("memtable_whole_key_filtering=true;write_buffer_size=1m", false),
            (RATIO, false),
            (&format!("{RATIO};memtable_whole_key_filtering=true"), true),
            (&format!("{RATIO};prefix_extractor=fixed:2"), true),
        ] {
            let scene = open(text);
            let used = scene.property("rocksdb.cur-size-active-mem-table");
            let used: usize = used.parse().expect("a number");
            assert_eq!(used >= 1 << 18, has_filter, "{text}: {used}");
            scene.put("ab", "1");
            scene.put("key", "2");
            assert_eq!(scene.get("ab"), Some(b"1".to_vec()), "{text}");
            assert_eq!(scene.get("key"), Some(b"2".to_vec()), "{text}");
            assert_eq!([scene.get("ac"), scene.get("kez"), scene.get("a")], [None, None, None]);
        }
    }

    range_deletions_are_bounded shows "memtable_max_range_deletions" {
        for (text, is_flushed) in [("", false), ("memtable_max_range_deletions=3", true)] {
            let scene = open(text);
            for begin in ["a", "b", "c", "d"] {
                let options = WriteOptions::default();
                let (begin, family) = (begin.as_bytes(), scene.family());
                scene.db.delete_range_cf_opt(&family, begin, b"x", &options).expect("a deletion");
            }
            scene.put("z", "1");
            assert_eq!(scene.level_0() > 0, is_flushed, "{text}");
        }
    }

    memtables_are_merged shows "min_write_buffer_number_to_merge" {
        let tables = |text: &str| {
            let scene = open(&format!(
                "disable_auto_compactions=true;write_buffer_size=64k;\
                 max_write_buffer_number=6;{text}"
            ));
            scene.fill(0, 350, 1000);
            scene.level_0()
        };
        let (each, merged) = (tables(""), tables("min_write_buffer_number_to_merge=3"));
        assert!(each >= 4 && merged < each / 2, "{each} and {merged}");
    }

    sealed_memtables_may_accumulate shows "max_write_buffer_number" {
        // The number of memtables that a flush merges is limited to `max_write_buffer_number` - 1,
        // since one memtable is active.
        for (number, is_flushed) in [("2", true), ("20", false)] {
            let scene = open(&format!(
                "disable_auto_compactions=true;write_buffer_size=64k;\
                 min_write_buffer_number_to_merge=30;\
                 max_write_buffer_number={number}"
            ));
            scene.fill(0, 300, 1000);
            assert_eq!(scene.level_0() > 0, is_flushed, "{number}");
        }
    }

    tables_in_level_0_slow_writes_down shows
        "level0_slowdown_writes_trigger", "delayed_write_rate"
    {
        assert_eq!(cause(&stall_after("", 4)), None);
        let state = stall_after("level0_slowdown_writes_trigger=3;delayed_write_rate=4567", 3);
        assert_eq!(cause(&state), Some((false, StallCause::Level0)));
        assert!(matches!(state, StallState::Delayed { bytes_per_second: 4567, .. }), "{state:?}");
    }

    tables_in_level_0_stop_writes shows "level0_stop_writes_trigger" {
        let text = "level0_slowdown_writes_trigger=3;level0_stop_writes_trigger=4";
        assert_eq!(cause(&stall_after(text, 4)), Some((true, StallCause::Level0)));
    }

    pending_compaction_bytes_stall_writes shows
        "soft_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit"
    {
        let state = stall_after("soft_pending_compaction_bytes_limit=150000", 2);
        assert_eq!(cause(&state), Some((false, StallCause::PendingCompaction)));
        let state = stall_after("hard_pending_compaction_bytes_limit=150000", 2);
        assert_eq!(cause(&state), Some((true, StallCause::PendingCompaction)));
    }

    a_family_may_refuse_writes shows "disallow_memtable_writes" {
        open("").try_put("a", "1").expect("a put");
        let error = open("disallow_memtable_writes=true").try_put("a", "1").expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }

    operands_are_folded shows "merge_operator" {
        let scene = open("merge_operator=stringappend");
        for operand in [b"1", b"2"] {
            let options = WriteOptions::default();
            scene.db.merge_cf_opt(&scene.family(), b"a", operand, &options).expect("a merge");
        }
        assert_eq!(scene.get("a").as_deref(), Some(&b"1,2"[..]));
        let scene = open("");
        let merged = scene.db.merge_cf_opt(&scene.family(), b"a", b"1", &WriteOptions::default());
        assert!(merged.is_err());
    }

    the_comparator_orders_keys shows "comparator" {
        for (text, first) in [("", "a"), ("comparator=rocksdb.ReverseBytewiseComparator", "b")] {
            let scene = open(text);
            scene.put("a", "1");
            scene.put("b", "1");
            let options = tailwater::ReadOptions::default();
            let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family(), &options).expect("an iterator");
            iterator.seek_to_first().expect("a seek");
            assert_eq!(iterator.key(), first.as_bytes(), "{text}");
        }
    }
}
