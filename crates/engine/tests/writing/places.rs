//! Which directories tables are in.

use tailwater::{CompactRangeOptions, Db};
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, findings, get, names, put, simulated};

/// Outputs were said to be in the first directory, whichever they were written to.
#[test]
fn compacted_tables_are_found_in_the_directory_of_their_level() {
    let disk = SimStorage::new(1);
    let text = "cf_paths={/db,1000:/deeper};max_bytes_for_level_base=2000;\
        level_compaction_dynamic_level_bytes=false;paranoid_file_checks=true";
    let options = simulated(&disk, text);
    let open = || Db::open("/db".as_ref(), &options).expect("a database");
    let db = open();
    for value in ["1", "2"] {
        put(&db, "a", value).expect("a put");
        put(&db, "b", value).expect("a put");
        db.flush_all().expect("a flush");
    }
    let all = CompactRangeOptions::default();
    db.compact_range(&default_family(&db), None, None, &all).expect("a compaction");
    let tables = names(&disk, "/deeper".as_ref());
    assert!(tables.iter().any(|name| name.ends_with(".sst")), "{tables:?}");
    assert_eq!(get(&db, "a").as_deref(), Some("2"));
    db.close().expect("closing");
    drop(db);

    assert!(findings("/db".as_ref(), &options).is_empty());
    assert_eq!(get(&open(), "b").as_deref(), Some("2"));
}
