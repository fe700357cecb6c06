//! Checkpoints.

use tailwater::{Db, ErrorKind, WriteOptions};
use tailwater_io::sim::{Fault, FaultPlan, SimStorage};

use crate::support::{
    default_family, findings, get, get_from, options, put, simulated, told, unlogged,
};

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, checkpoint) = (directory.path().join("db"), directory.path().join("checkpoint"));
    let db = Db::open(&path, &options("db_paths=tables,1G")).expect("a new database");
    let default = default_family(&db);
    let other = db.create_column_family("other", &default.options()).expect("a family");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    put(&db, "b", "2").expect("a put");
    db.put(&other, b"c", b"3", &unlogged()).expect("a put");
    db.checkpoint(&checkpoint).expect("a checkpoint");
    put(&db, "a", "later").expect("a put");
    db.drop_column_family(&other).expect("dropping");
    db.flush_all().expect("a flush");
    assert_eq!(findings(&checkpoint, &options("")), []);

    let copy = Db::open(&checkpoint, &options("")).expect("the checkpoint");
    let other = copy.column_family("other").expect("the other family");
    assert_eq!(get(&copy, "a").as_deref(), Some("1"));
    assert_eq!(get(&copy, "b").as_deref(), Some("2"));
    assert_eq!(get_from(&copy, &other, "c").as_deref(), Some("3"));
    put(&copy, "a", "of its own").expect("a put");
    drop(copy);
    assert_eq!(get(&db, "a").as_deref(), Some("later"));
    let (kind, text) = told(db.checkpoint(&checkpoint));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("already"), "{text}");
}

#[test]
fn a_checkpoint_that_fails_leaves_nothing_and_can_be_made_again() {
    let disk = SimStorage::new(1);
    let options = simulated(&disk, "");
    let db = Db::open("/db".as_ref(), &options).expect("a new database");
    put(&db, "a", "1").expect("a put");
    db.flush_all().expect("a flush");
    let mut failed = 0;
    for index in 0.. {
        disk.set_faults(FaultPlan::at(index, Fault::InputOutput));
        let made = db.checkpoint("/checkpoint".as_ref());
        disk.set_faults(FaultPlan::none());
        if made.is_ok() && index > 30 {
            break;
        }
        // A link that fails is made up for by a copy.
        match made {
            Ok(()) => Db::destroy("/checkpoint".as_ref(), &options).expect("destroying"),
            Err(_) => failed += 1,
        }
    }
    assert!(failed > 10, "faults were met {failed} times");
    let copy = Db::open("/checkpoint".as_ref(), &options).expect("the checkpoint");
    assert_eq!(get(&copy, "a").as_deref(), Some("1"));
    db.put(&default_family(&db), b"b", b"2", &WriteOptions::default()).expect("a put");
}
