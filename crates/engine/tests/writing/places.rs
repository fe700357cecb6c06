//! Tests of the directory in which a database writes a new table, if its options name several
//! directories.

use std::collections::BTreeSet;

use tailwater::options::{ColumnFamilyOptions, DbPath};
use tailwater::{CompactRangeOptions, Db, WriteOptions};
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, findings, get, names, put, simulated};

/// Regression test: the MANIFEST always recorded the first directory for the outputs of a
/// compaction, even if they were written to another one.
#[test]
fn compacted_tables_are_found_in_the_directory_of_their_level() {
    let disk = SimStorage::new(1);
    let text = "cf_paths={/db,1000:/deeper};max_bytes_for_level_base=2000;\
        level_compaction_dynamic_level_bytes=false;paranoid_file_checks=true";
    let options = simulated(&disk, text);
    let open = || Db::open("/db", &options).expect("a database");
    let db = open();
    for value in ["1", "2"] {
        put(&db, "a", value).expect("a put");
        put(&db, "b", value).expect("a put");
        db.flush_all().expect("a flush");
    }
    let all = CompactRangeOptions::default();
    db.compact_range_cf_opt(&default_family(&db), None, None, &all).expect("a compaction");
    let tables = names(&disk, "/deeper".as_ref());
    assert!(tables.iter().any(|name| name.ends_with(".sst")), "{tables:?}");
    assert_eq!(get(&db, "a").as_deref(), Some("2"));
    db.close().expect("closing");
    drop(db);

    assert!(findings("/db".as_ref(), &options).is_empty());
    assert_eq!(get(&open(), "b").as_deref(), Some("2"));
}

/// Tests in which directory a table is written. A column family without directories of its own uses
/// those of the database. Flushed tables go to the first directory. The tables of a level go to the
/// first directory whose target size suffices for that level and all levels above it.
#[test]
fn levels_go_to_the_first_directory_that_has_room() {
    let disk = SimStorage::new(1);
    let text = "db_paths={/fast,11000:/middle,25000:/slow};max_bytes_for_level_base=5000;\
        max_bytes_for_level_multiplier=4;target_file_size_base=1500;\
        level0_file_num_compaction_trigger=2;compression=kNoCompression;\
        block_based_table_factory={block_size=200}";
    let mut options = simulated(&disk, text);
    let db = Db::open("/db", &options).expect("a database");
    let default = default_family(&db);
    let mut own = ColumnFamilyOptions::clone(&default.options());
    own.cf_paths = vec![DbPath { path: "/own".into(), target_size: 1 << 40 }];
    options.set_column_family("own", own.clone());
    let own = db.create_cf("own", &own).expect("a column family");
    let mut places = BTreeSet::new();
    for number in 0..900 {
        for family in [&default, &own] {
            let key = format!("{:05}", number * 7919 % 1000);
            let value = [b'v'; 100];
            db.put_cf_opt(family, key.as_bytes(), value, &WriteOptions::default()).expect("a put");
        }
        if number % 10 == 9 {
            db.flush_all().expect("a flush");
        }
        for file in db.live_files() {
            let directory = file.path.parent().expect("a directory").display().to_string();
            match &*file.column_family {
                "own" => assert_eq!(directory, "/own"),
                _ => _ = places.insert((file.level, directory)),
            }
        }
    }
    // The database chooses the directories as if level 0 were as large as level 1. The first
    // directory has space for both levels.
    let places: Vec<_> = places.iter().map(|(level, path)| (*level, &**path)).collect();
    let expected = [(0, "/fast"), (1, "/fast"), (2, "/middle"), (3, "/slow"), (4, "/slow")];
    assert_eq!(places, expected);
    drop((default, own, db));
    assert_eq!(findings("/db".as_ref(), &options), []);
}
