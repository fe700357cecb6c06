//! LSM trees of every compaction style: trees with many levels, many tables or several directories,
//! and databases whose column families are created and dropped.

use std::path::PathBuf;

use crate::in_laboratory;
use crate::random::Operands;
use crate::workload::{self, Plan};
use tailwater::options::DbPath;
use tailwater_testkit::directory;
use tailwater_testkit::oracle::Script;

/// Number of entries. They fill several levels.
const ENTRIES: usize = 120_000;

#[test]
fn several_full_levels() {
    in_laboratory("several full levels", |laboratory| {
        let options = "write_buffer_size=262144;target_file_size_base=30000;\
            max_bytes_for_level_base=262144;max_bytes_for_level_multiplier=4;\
            compression=kLZ4Compression;level_compaction_dynamic_level_bytes=false;\
            block_based_table_factory={filter_policy=bloomfilter:10}";
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "max_open_files=-1", &[("default", options)]);
        let seed = laboratory.rng.u32(..);
        script.line(&[&"fill", &"default", &ENTRIES, &(2 * ENTRIES), &20, &seed]);
        let tables = laboratory.compare(&path, script, "leveled", |options| {
            options.set_from_string("max_open_files=20").expect("a bound");
        });
        assert!(tables > 40, "{tables} tables are not many");
    });
}

#[test]
fn universal_and_fifo_with_many_tables() {
    in_laboratory("universal and FIFO with many tables", |laboratory| {
        let universal = "compaction_style=kCompactionStyleUniversal;num_levels=5;\
            level0_file_num_compaction_trigger=6;write_buffer_size=65536;target_file_size_base=8192";
        let one_level = "compaction_style=kCompactionStyleUniversal;num_levels=1;\
            level0_file_num_compaction_trigger=30;write_buffer_size=65536";
        let fifo = "compaction_style=kCompactionStyleFIFO;write_buffer_size=65536;\
            compaction_options_fifo={max_table_files_size=200000}";
        let quiet = "disable_auto_compactions=true;merge_operator=stringappend";
        let families =
            [("universal", universal), ("one-level", one_level), ("fifo", fifo), ("quiet", quiet)];
        let plans = families.map(|family| {
            let operands = if family.0 == "quiet" { Operands::Bytes } else { Operands::None };
            let compactions = 0;
            Plan { flushes: 25, compactions, ranges: 5, operands, ..Plan::new(family) }
        });
        let path = laboratory.next_directory();
        let mut script = Script::open(&path, "", &families);
        workload::write(&mut script, &mut laboratory.rng, &plans, 6000);
        let tables = laboratory.compare(&path, script, "four styles", |options| {
            options.set_from_string("max_open_files=20").expect("a bound");
        });
        assert!(tables > 40, "{tables} tables are not many");
    });
}

#[test]
fn tables_in_several_directories() {
    in_laboratory("tables in several directories", |laboratory| {
        let path = laboratory.next_directory();
        let paths = [(); 4].map(|()| laboratory.next_directory());
        let small = "write_buffer_size=65536;target_file_size_base=8192;\
            max_bytes_for_level_base=20000;max_bytes_for_level_multiplier=3";
        let families = [("default", small), ("elsewhere", small)];
        let mut script = Script::describe(&path, "", &families);
        let [first, second, third, fourth] = &paths;
        for directory in [first, second] {
            script.line(&[&"database-path", &directory.display(), &6_000]);
        }
        for directory in [third, fourth] {
            script.line(&[&"family-path", &"elsewhere", &directory.display(), &6_000]);
        }
        script.line(&[&"open"]);
        let plans = families.map(|family| Plan { keys: 4000, flushes: 10, ..Plan::new(family) });
        workload::write(&mut script, &mut laboratory.rng, &plans, 4000);
        let tables = laboratory.compare(&path, script, "two and two", |options| {
            let of = |directories: [&PathBuf; 2]| {
                directories.map(|path| DbPath { path: path.clone(), target_size: 6_000 }).to_vec()
            };
            let mut database = options.database().clone();
            database.db_paths = of([first, second]);
            options.set_database(database);
            let mut elsewhere = options.column_family("elsewhere").clone();
            elsewhere.cf_paths = of([third, fourth]);
            options.set_column_family("elsewhere", elsewhere);
        });
        assert_eq!(tables, 0, "tables are in the database's own directory");
        let used = paths.iter().filter(|path| !directory::snapshot(path).is_empty()).count();
        assert!(used >= 2, "only {used} directory has tables");
    });
}

#[test]
fn dropped_families_and_changed_options() {
    in_laboratory("dropped families and changed options", |laboratory| {
        let path = laboratory.next_directory();
        let names = ["a", "b", "c", "d"];
        let families = names.map(|name| (name, ""));
        let plans = families.map(Plan::new);
        let mut script = Script::open(&path, "", &families);
        for changed in ["enable_blob_files=true", "target_file_size_base=9000", "min_blob_size=100"]
        {
            workload::write(&mut script, &mut laboratory.rng, &plans, 600);
            for name in names {
                script.line(&[&"change", &name, &changed]);
                script.flush(name);
            }
        }
        script.line(&[&"drop", &"b"]);
        let kept: Vec<Plan<'_>> = plans.iter().copied().filter(|plan| plan.family != "b").collect();
        workload::write(&mut script, &mut laboratory.rng, &kept, 600);
        laboratory.compare(&path, script, "first session", |_| {});

        let families = ["a", "c", "d", "b", "e"].map(|name| (name, "compression=kZSTD"));
        let mut script = Script::open(&path, "", &families);
        let plans = families.map(Plan::new);
        workload::write(&mut script, &mut laboratory.rng, &plans, 1500);
        script.line(&[&"drop", &"c"]);
        laboratory.compare(&path, script, "second session", |_| {});
    });
}
