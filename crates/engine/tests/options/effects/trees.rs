//! Effects of options on compactions and on the resulting LSM tree.

use std::sync::Arc;

use tailwater::{
    BottommostRewrite, CompactRangeOptions, CompactionFilter, CustomCompactionFilter,
    FilterContext, FilterDecision, FilteredValue, ReadOptions, WriteOptions,
};

use tailwater_io::{Operation, Purpose};

use super::support::{DB, Scene, open, options};

/// A compaction filter that removes every entry.
struct NoneStays;

impl CustomCompactionFilter for NoneStays {
    fn name(&self) -> &str {
        "none.stays"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        FilterDecision::Remove
    }
}

/// Options for leveled compaction with fixed level sizes, and for small tables.
const STATIC: &str = "level_compaction_dynamic_level_bytes=false;compression=kNoCompression;\
                      write_buffer_size=64k";

/// Returns a database into which about one megabyte was written and flushed.
fn tree(text: &str) -> Scene {
    let scene = open(&format!("{STATIC};{text}"));
    scene.fill(0, 500, 1000);
    scene.fill(0, 500, 1000);
    scene.flush();
    scene
}

/// Returns the total length of the tables in each level, in bytes.
fn level_bytes(scene: &Scene) -> Vec<u64> {
    let mut bytes = vec![0; 7];
    for file in scene.db.live_files() {
        bytes[file.level] += file.size;
    }
    bytes
}

/// Returns the length of the largest table, in bytes.
fn largest(scene: &Scene) -> u64 {
    scene.sizes().into_iter().max().expect("a table")
}

effects! {
    compactions_are_triggered_by_level_0 shows "level0_file_num_compaction_trigger" {
        for (trigger, tables) in [("3", 0), ("9", 3)] {
            let scene = open(&format!("level0_file_num_compaction_trigger={trigger}"));
            for _ in 0..3 {
                scene.fill(0, 3, 10);
                scene.flush();
            }
            assert_eq!(scene.level_0(), tables, "{trigger}");
        }
    }

    tables_record_preserved_write_times shows "preserve_internal_time_seconds" {
        for (text, tells) in [("", false), ("preserve_internal_time_seconds=1000", true)] {
            let scene = open(text);
            scene.fill(0, 3, 10);
            scene.flush();
            let reported = scene.properties().sequence_to_time_mapping;
            assert_eq!(!reported.is_empty(), tells, "{text}");
        }
    }

    automatic_compactions_can_be_disabled shows "disable_auto_compactions" {
        for (text, compacts) in [("", true), ("disable_auto_compactions=true", false)] {
            let scene = open(text);
            for _ in 0..5 {
                scene.fill(0, 3, 10);
                scene.flush();
            }
            assert_eq!(scene.level_0() < 5, compacts, "{text}");
        }
    }

    other_styles_are_not_compacted_automatically shows "compaction_style" {
        for (text, compacts) in [("Level", true), ("FIFO", false), ("Universal", false)] {
            let scene = open(&format!("compaction_style=kCompactionStyle{text};ttl=0"));
            for _ in 0..5 {
                scene.fill(0, 3, 10);
                scene.flush();
            }
            assert_eq!(scene.level_0() < 5, compacts, "{text}");
        }
    }

    the_number_of_levels_is_configurable shows "num_levels" {
        for (text, last) in [("", 6), ("num_levels=4", 3)] {
            let scene = open(text);
            scene.fill(0, 3, 10);
            scene.flush();
            scene.fill(0, 3, 10);
            scene.compact();
            assert_eq!(scene.levels(), [(last, 1)], "{text}");
        }
    }

    levels_are_filled_from_the_last_or_the_first shows "level_compaction_dynamic_level_bytes" {
        for (text, level) in [("true", 6), ("false", 1)] {
            let scene = open(&format!("level_compaction_dynamic_level_bytes={text}"));
            for _ in 0..4 {
                scene.fill(0, 3, 10);
                scene.flush();
            }
            assert_eq!(scene.levels(), [(level, 1)], "{text}");
        }
    }

    tables_have_a_size shows "target_file_size_base", "target_file_size_is_upper_bound" {
        // The size of a table of level 0 is that of its memtable.
        let compacted = |text: &str| {
            let scene = tree(text);
            scene.compact();
            largest(&scene)
        };
        let whole = compacted("target_file_size_base=10m");
        let small = compacted("target_file_size_base=50k");
        assert!(whole > 200_000 && small < 80_000, "{whole} and {small}");
        let bounded =
            compacted("target_file_size_base=50k;target_file_size_is_upper_bound=true");
        assert!(bounded < small, "{bounded} and {small}");
    }

    tables_grow_with_their_level shows "target_file_size_multiplier" {
        let deep = "target_file_size_base=20k;max_bytes_for_level_base=40k;\
                    max_bytes_for_level_multiplier=3";
        let (same, larger) =
            (largest(&tree(deep)), largest(&tree(&format!("{deep};target_file_size_multiplier=3"))));
        assert!(larger > same * 3 / 2, "{same} and {larger}");
    }

    levels_have_a_size shows
        "max_bytes_for_level_base", "max_bytes_for_level_multiplier",
        "max_bytes_for_level_multiplier_additional"
    {
        let bytes = |text: &str| level_bytes(&tree(&format!("target_file_size_base=20k;{text}")));
        let one = bytes("");
        assert!(one[1] > 400_000 && one[2] == 0, "{one:?}");
        let two = bytes("max_bytes_for_level_base=100k");
        assert!(two[1] < 150_000 && two[2] > 300_000 && two[3] == 0, "{two:?}");
        let three = bytes("max_bytes_for_level_base=100k;max_bytes_for_level_multiplier=2");
        assert!(three[2] < 250_000 && three[3] > 100_000, "{three:?}");
        let wide = bytes(
            "max_bytes_for_level_base=100k;max_bytes_for_level_multiplier=2;\
             max_bytes_for_level_multiplier_additional=1:5",
        );
        assert!(wide[3] < three[3], "{wide:?} and {three:?}");
    }

    old_tables_are_compacted shows "periodic_compaction_seconds" {
        for (text, compacts) in [("", false), ("periodic_compaction_seconds=100", true)] {
            let scene = open(text);
            for _ in 0..2 {
                scene.fill(0, 3, 10);
                scene.flush();
            }
            let before = scene.db.live_files()[0].number;
            scene.disk.clock().advance(1_000_000_000_000);
            scene.put("x", "1");
            scene.flush();
            let is_there = scene.db.live_files().iter().any(|file| file.number == before);
            assert_eq!(!is_there, compacts, "{text}: {:?}", scene.levels());
        }
    }

    compaction_outputs_are_verified shows "paranoid_file_checks", "verify_output_flags" {
        let read = |text: &str| {
            let scene = open(&format!("disable_auto_compactions=true;{text}"));
            for _ in 0..2 {
                scene.fill(0, 300, 1000);
                scene.flush();
            }
            scene.compact();
            scene.calls(Operation::Read, Purpose::Verification) > 0
        };
        assert!(!read(""));
        assert!(read("paranoid_file_checks=true"));
        assert!(read("verify_output_flags=1026"));
        assert!(!read("verify_output_flags=2"), "of what is not a compaction's");
    }

    records_are_filtered shows "compaction_filter" {
        for (text, is_kept) in [("", true), ("compaction_filter=none.stays", false)] {
            let disk = tailwater_io::sim::SimStorage::new(1);
            let mut options = options(&disk, text);
            options.add_compaction_filter(CompactionFilter::Custom(Arc::new(NoneStays)));
            let db = tailwater::Db::open(DB, &options).expect("a new database");
            let family = db.cf_handle("default").expect("a column family");
            db.put_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a put");
            let all = CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
            db.compact_range_cf_opt(&family, None, None, &all).expect("a compaction");
            let value = db.get_cf_opt(&family, b"a", &ReadOptions::default()).expect("a get");
            assert_eq!(value.is_some(), is_kept, "{text}");
        }
    }

    the_last_level_has_no_filters shows "optimize_filters_for_hits" {
        for (text, has_filter) in [("", true), ("optimize_filters_for_hits=true", false)] {
            let table = "block_based_table_factory={filter_policy=bloomfilter:10}";
            let scene = open(&format!("{table};{text}"));
            for _ in 0..2 {
                scene.fill(0, 3, 10);
                scene.flush();
            }
            assert!(scene.properties().filter_size > 0);
            scene.compact();
            assert_eq!(scene.properties().filter_size > 0, has_filter, "{text}");
        }
    }
}
