//! Column families that are created and dropped.

use tailwater::{Db, ErrorKind, WriteBatch, WriteOptions};
use tailwater_io::posix::PosixStorage;

use crate::support::{default_family, failure, get_from, names, options, put};

#[test]
fn a_dropped_family_stays_readable_until_its_last_handle_is_dropped() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let db = Db::open(path, &options("")).expect("a new database");
    let options_of = default_family(&db).options().clone();
    let family = db.create_cf("short", &options_of).expect("a family");
    let written = WriteOptions::default();
    db.put_cf_opt(&family, b"a", b"1", &written).expect("a put");
    db.flush_cf(&family).expect("a flush");
    db.put_cf_opt(&family, b"b", b"2", &written).expect("a put");
    db.drop_cf(&family).expect("dropping");
    assert_eq!(get_from(&db, &family, "a").as_deref(), Some("1"));
    assert_eq!(get_from(&db, &family, "b").as_deref(), Some("2"));
    assert_eq!(failure(db.put_cf_opt(&family, b"c", b"3", &written)).0, ErrorKind::InvalidArgument);
    let mut batch = WriteBatch::new();
    batch.put_cf(0, b"d", b"4").expect("a record");
    batch.put_cf(family.id(), b"d", b"4").expect("a record");
    let (kind, text) = failure(db.write_opt(&mut batch, &written));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("no column family 1"), "{text}");
    assert_eq!(db.latest_sequence_number(), 2, "nothing of the batch was written");

    let again = db.create_cf("short", &options_of).expect("the name again");
    assert_ne!(again.id(), family.id(), "an id is never used again");
    assert_eq!(get_from(&db, &again, "a"), None);
    drop(family);
    db.close().expect("closing");
    let tables = names(&PosixStorage::new(), path);
    assert!(!tables.iter().any(|name| name.ends_with(".sst")), "{tables:?}");
    drop(db);
    let listed = Db::list_cf(path, &options("")).expect("the names");
    assert_eq!(listed, ["default", "short"]);
}

#[test]
fn families_that_cannot_be_made_or_dropped_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), &options("")).expect("a new database");
    let default = default_family(&db);
    let options_of = &default.options();
    let (kind, text) = failure(db.create_cf("default", options_of));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("'default' already"), "{text}");
    assert_eq!(failure(db.drop_cf(&default)).0, ErrorKind::InvalidArgument);
    let family = db.create_cf("once", options_of).expect("a family");
    db.drop_cf(&family).expect("dropping");
    assert_eq!(failure(db.drop_cf(&family)).0, ErrorKind::InvalidArgument);
    let elsewhere = tempfile::tempdir().expect("a directory");
    let other = Db::open(elsewhere.path(), &options("")).expect("another database");
    let foreign = other.create_cf("foreign", options_of).expect("a family");
    let mine = db.create_cf("mine", options_of).expect("a family");
    assert_eq!(failure(db.drop_cf(&foreign)).0, ErrorKind::InvalidArgument);
    assert_eq!(failure(other.drop_cf(&mine)).0, ErrorKind::InvalidArgument);
    let refused = {
        let mut options = tailwater::options::ColumnFamilyOptions::clone(options_of);
        options.table_factory.format_version = 8;
        options
    };
    let (kind, text) = failure(db.create_cf("unknown", &refused));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("format_version"), "{text}");
}

#[test]
fn missing_families_are_created_only_if_the_options_ask_for_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    drop(Db::open(path, &options("")).expect("a new database"));
    let mut naming = options("");
    naming.set_column_family("wanted", Default::default());
    let (kind, text) = failure(Db::open(path, &naming));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(text.contains("'wanted'") && text.contains("create_missing"), "{text}");
    naming.set_from_string("create_missing_column_families=true").expect("options");
    let db = Db::open(path, &naming).expect("the database");
    put(&db, "a", "1").expect("a put");
    let wanted = db.cf_handle("wanted").expect("the family");
    db.put_cf_opt(&wanted, b"a", b"2", &WriteOptions::default()).expect("a put");
}
