//! Directories outside the home of a database, while the database is open.

use std::path::{Path, PathBuf};

use tailwater::{Db, ErrorKind, WriteOptions};

use crate::database::{DEFAULT, Layout, Place, state_of};
use crate::world::World;

/// Regression test: a copy of a home was opened and adopted the log directory, while the original
/// database was open and writing logs there. Both databases then created logs with the same
/// numbers.
#[test]
fn directories_that_are_in_use_are_not_adopted() {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    let layout = |home: &str| {
        let mut layout = Layout::at(PathBuf::from(home));
        layout.logs = Some(PathBuf::from("/w"));
        layout
    };
    let mut options = world.options(&layout("/a"), "create_if_missing=true", &[]);
    let original = Db::open(Path::new("/a"), &options).expect("a database");
    let family = original.cf_handle(DEFAULT).expect("a column family");
    let synced = WriteOptions::new().with_sync(true);
    original.put_cf_opt(&family, b"key", b"value", &synced).expect("a put");
    world.copy(Path::new("/a"), Path::new("/b"));
    options.set_adopt_directories(true);
    let error = Db::open(Path::new("/b"), &options).expect_err("it is in use");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("/w"), "{error}");
    original.close().expect("a database that can be closed");
    drop((family, original));
    let copy = Db::open(Path::new("/b"), &options).expect("nobody else uses the directory");
    let found = state_of(&copy).expect("what it holds");
    assert_eq!(found[DEFAULT].get("key").map(String::as_str), Some("value"));
}

/// Regression test: while a database was open, a copy of its home could be opened with the
/// original's logs, and destroying the copy removed those logs.
#[test]
fn a_copy_of_a_database_that_is_open_leaves_its_directories_alone() {
    let mut world = World::new(fastrand::Rng::with_seed(1));
    let layout = |home: &str| {
        let place = Place { directory: PathBuf::from("/f"), target_size: u64::MAX };
        let (logs, tables) = (Some(PathBuf::from("/w")), vec![place]);
        Layout { logs, tables, ..Layout::at(PathBuf::from(home)) }
    };
    let options = world.options(&layout("/a"), "create_if_missing=true", &[]);
    let original = Db::open(Path::new("/a"), &options).expect("a database");
    let family = original.cf_handle(DEFAULT).expect("a column family");
    let synced = WriteOptions::new().with_sync(true);
    original.put_cf_opt(&family, b"key", b"value", &synced).expect("a put");
    original.flush_cf(&family).expect("a flush");
    original.put_cf_opt(&family, b"other", b"value", &synced).expect("a put");
    world.copy(Path::new("/a"), Path::new("/b"));
    for opened in [Db::open(Path::new("/b"), &options), Db::open_read_only("/b", &options)] {
        let error = opened.map(drop).expect_err("the original's directories");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("/a"), "{error}");
    }
    Db::destroy(Path::new("/b"), &options).expect("what is in its home is its own");
    assert!(!world.is_database(Path::new("/b")));
    // The original still works.
    original.put_cf_opt(&family, b"last", b"value", &synced).expect("a put");
    original.close().expect("a database that can be closed");
    drop((family, original));
    let original = Db::open(Path::new("/a"), &options).expect("the original");
    assert_eq!(state_of(&original).expect("what it holds")[DEFAULT].len(), 3);
}
