//! Records of every kind that overwrite each other: puts, merges, deletions of keys and ranges,
//! values in blob files, and records of ingested tables.

use crate::in_laboratory;
use crate::random::{self, Operands};
use crate::workload::{self, Plan};
use tailwater_testkit::oracle::Script;

/// Options for tables so small that a range deletion spans several of them.
const SMALL_TABLES: &str = "write_buffer_size=65536;target_file_size_base=2048;\
    max_bytes_for_level_base=16384;max_bytes_for_level_multiplier=4;\
    block_based_table_factory={block_size=512}";

#[test]
fn merges_over_everything() {
    in_laboratory("merges over everything", |laboratory| {
        let numbers = format!("merge_operator=UInt64AddOperator;{SMALL_TABLES}");
        let joined =
            format!("merge_operator={{id=StringAppendOperator;delimiter=::}};{SMALL_TABLES}");
        let tested = "merge_operator=stringappendtest".to_owned();
        let largest = format!("merge_operator=max;{SMALL_TABLES}");
        let newest = "merge_operator=put;max_successive_merges=3".to_owned();
        let blobs =
            "merge_operator=stringappend;enable_blob_files=true;min_blob_size=10".to_owned();
        let families = [
            ("numbers", numbers.as_str()),
            ("joined", &joined),
            ("tested", &tested),
            ("largest", &largest),
            ("newest", &newest),
            ("blobs", &blobs),
        ];
        let plans: Vec<Plan<'_>> = families
            .iter()
            .map(|&family| {
                let operands =
                    if family.0 == "numbers" { Operands::Numbers } else { Operands::Bytes };
                Plan { operands, ranges: 8, flushes: 8, ..Plan::new(family) }
            })
            .collect();
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "", &families);
        workload::write(&mut script, &mut laboratory.rng, &plans, 9000);
        laboratory.compare(&path, script, "six operators", |_| {});
    });
}

#[test]
fn records_of_one_key_across_tables() {
    // Regression test: the records of one key were in two consecutive tables of a level. A get
    // searched only the first of these tables.
    in_laboratory("records of one key across tables", |laboratory| {
        // The database has two flushed tables and no automatic compactions. So the requested
        // compaction merges the two tables, and cuts its output between records of one key. If
        // there were only one table, the compaction would move it unchanged.
        let options =
            format!("merge_operator=stringappend;{SMALL_TABLES};disable_auto_compactions=true");
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "", &[("default", &options)]);
        for key in 0..5 {
            if key == 3 {
                script.flush("default");
            }
            for number in 0..60 {
                let key = format!("key{key}");
                let value: Vec<u8> = (0..200).map(|_| laboratory.rng.u8(..)).collect();
                match number % 20 {
                    0 => script.put("default", key.as_bytes(), &value),
                    19 => script.delete_range("default", b"key1", b"key3"),
                    _ => script.merge("default", key.as_bytes(), &value),
                }
                script.line(&[&"snapshot"]);
            }
        }
        script.flush("default");
        script.compact("default");
        let tables = laboratory.compare(&path, script, "merges under snapshots", |_| {});
        assert!(tables > 5, "{tables} tables are too few for five keys");
    });
}

#[test]
fn range_tombstones_across_tables_and_levels() {
    in_laboratory("range tombstones across tables and levels", |laboratory| {
        let reverse = format!("comparator=rocksdb.ReverseBytewiseComparator;{SMALL_TABLES}");
        let universal = format!("compaction_style=kCompactionStyleUniversal;{SMALL_TABLES}");
        let families =
            [("default", SMALL_TABLES), ("reverse", reverse.as_str()), ("universal", &universal)];
        let plans = families.map(|family| Plan {
            keys: 4000,
            ranges: 60,
            flushes: 12,
            compactions: 0,
            ..Plan::new(family)
        });
        for round in 0..3 {
            let path = laboratory.next_directory();
            let mut script = Script::open(&path, "", &families);
            workload::write(&mut script, &mut laboratory.rng, &plans, 5000);
            let what = format!("database {round}");
            let tables = laboratory.compare(&path, script, &what, |_| {});
            assert!(tables > 10, "{tables} tables are not many");
        }
    });
}

#[test]
fn blob_files_of_every_compression() {
    in_laboratory("blob files of every compression", |laboratory| {
        let codecs = [
            "kNoCompression",
            "kSnappyCompression",
            "kZlibCompression",
            "kBZip2Compression",
            "kLZ4Compression",
            "kLZ4HCCompression",
            "kZSTD",
        ];
        let options = codecs.map(|codec| {
            format!(
                "enable_blob_files=true;min_blob_size=30;blob_compression_type={codec};\
                 blob_file_size=30000;enable_blob_garbage_collection=true;\
                 blob_garbage_collection_age_cutoff=0.8;blob_garbage_collection_force_threshold=0.3"
            )
        });
        let families: Vec<(&str, &str)> = codecs
            .iter()
            .zip(&options)
            .map(|(codec, options)| (*codec, options.as_str()))
            .collect();
        let plans: Vec<Plan<'_>> = families
            .iter()
            .map(|family| Plan { longest: 3000, flushes: 6, compactions: 3, ..Plan::new(*family) })
            .collect();
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "", &families);
        workload::write(&mut script, &mut laboratory.rng, &plans, 9000);
        laboratory.compare(&path, script, "seven codecs", |_| {});
    });
}

#[test]
fn ingested_tables() {
    in_laboratory("ingested tables", |laboratory| {
        let families = [
            ("default", "merge_operator=stringappend"),
            ("behind", "comparator=rocksdb.ReverseBytewiseComparator"),
        ];
        let plans = families.map(|family| Plan { ranges: 10, flushes: 10, ..Plan::new(family) });
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "allow_ingest_behind=false", &families);
        for number in 0..12 {
            workload::write(&mut script, &mut laboratory.rng, &plans, 150);
            for (family, _) in families {
                let file = laboratory.directory.path().join(format!("{family}{number}.sst"));
                script.line(&[&"external", &file.display(), &family]);
                external(&mut script, &mut laboratory.rng, family);
                script.line(&[&"finish"]);
                let how = ["copy", "move"][number % 2];
                // Older records must stay visible at this snapshot. The ingested table therefore
                // needs a sequence number of its own.
                script.line(&[&"snapshot"]);
                script.line(&[&"ingest", &family, &how, &file.display()]);
            }
        }
        laboratory.compare(&path, script, "copied and moved", |_| {});
    });
}

#[test]
fn tables_ingested_as_the_oldest_data() {
    in_laboratory("tables ingested as the oldest data", |laboratory| {
        let families = [("default", "compaction_style=kCompactionStyleUniversal;num_levels=4")];
        let plans = families.map(|family| Plan { ranges: 5, flushes: 10, ..Plan::new(family) });
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "allow_ingest_behind=true", &families);
        workload::write(&mut script, &mut laboratory.rng, &plans, 300);
        let file = laboratory.directory.path().join("behind.sst");
        script.line(&[&"external", &file.display(), &"default"]);
        external(&mut script, &mut laboratory.rng, "plain");
        script.line(&[&"finish"]);
        script.line(&[&"ingest", &"default", &"behind", &file.display()]);
        workload::write(&mut script, &mut laboratory.rng, &plans, 300);
        laboratory.compare(&path, script, "one table", |_| {});
    });
}

/// Adds to a script the records of an external table, in the key order of the column family.
fn external(script: &mut Script, rng: &mut fastrand::Rng, family: &str) {
    let mut keys: Vec<Vec<u8>> =
        (0..rng.usize(1..120)).map(|_| random::key(rng, random::KEYS)).collect();
    keys.sort();
    keys.dedup();
    if family == "behind" {
        keys.reverse();
    }
    for key in keys {
        match rng.u8(..6) {
            0 => script.delete(family, &key),
            1 if family == "default" => script.merge(family, &key, b"ingested operand"),
            _ => script.put(family, &key, &random::value(rng, 200)),
        }
    }
}
