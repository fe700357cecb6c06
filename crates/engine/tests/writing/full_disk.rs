//! A filesystem that runs full, and a directory without write permission.

use std::path::Path;
use std::time::Duration;

use tailwater::options::DbPath;
use tailwater::{Db, ErrorKind};
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::filesystem::Mounted;

use crate::support::{
    default_family, eventually, failure, findings, get, options, put, returns, synced,
};

/// Size of the filesystem that the test mounts, in bytes.
const DISK: u64 = 24 << 20;
/// Size of a file that fills part of the filesystem until the test removes it, in bytes.
const BALLAST: u64 = 8 << 20;

fn take_up_space(path: &Path) {
    let storage = PosixStorage::new();
    let mut file =
        storage.create(path, Create::New, IoMode::Buffered, Purpose::Metadata).expect("a file");
    file.write_all_at(&vec![1; BALLAST as usize], 0, Purpose::Metadata).expect("space");
    file.sync_all(Purpose::Metadata).expect("space");
}

#[test]
fn writes_resume_when_a_full_disk_has_space_again() {
    let Some(disk) = Mounted::new("ext4", DISK, "a full disk") else { return };
    let (path, ballast) = (disk.path().join("db"), disk.path().join("ballast"));
    take_up_space(&ballast);
    let text = "write_buffer_size=1M;max_write_buffer_number=3;compression=kNoCompression;\
                bgerror_resume_retry_interval=20000";
    let db = Db::open(&path, &options(text)).expect("a new database");
    let family = default_family(&db);
    let value = vec![b'v'; 4000];
    let mut acknowledged = 0;
    let error = loop {
        match db.put_cf_opt(&family, format!("{acknowledged:06}").as_bytes(), &value, &synced()) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < DISK / 4000, "the disk never was full");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.path().is_some(), "{error}");
    let (kind, text_again) = failure(put(&db, "x", "y"));
    assert_eq!(kind, ErrorKind::NoSpace, "{text_again}");
    for key in 0..acknowledged {
        assert!(get(&db, &format!("{key:06}")).is_some(), "{key} cannot be read");
    }
    PosixStorage::new().remove(&ballast).expect("room");
    let mut tries = 0;
    while let Err(error) = db.resume() {
        // A flush in progress may take up the space that was freed, so `resume` may fail at first.
        tries += 1;
        assert!(tries < 100, "there is room, but: {error}");
        std::thread::sleep(Duration::from_millis(20));
    }
    for key in 0..50 {
        let key = format!("later {key}");
        db.put_cf_opt(&family, key.as_bytes(), &value, &synced())
            .expect("a put when there is room");
    }
    db.close().expect("closing");
    drop((db, family));
    let db = Db::open(&path, &options(text)).expect("the database again");
    for key in 0..acknowledged {
        assert!(get(&db, &format!("{key:06}")).is_some(), "{key} is lost");
    }
    assert!((0..50).all(|key| get(&db, &format!("later {key}")).is_some()));
    drop(db);
    assert_eq!(findings(&path, &options(text)), []);
}

/// Regression test: when the disk of the tables was full, and the logs were on another one, writes
/// waited forever once the memtables were full.
#[test]
fn a_full_disk_for_tables_refuses_writes_until_it_has_space_again() {
    let Some(disk) = Mounted::new("ext4", DISK, "a full disk for tables") else { return };
    let home = tempfile::tempdir().expect("a directory");
    let ballast = disk.path().join("ballast");
    take_up_space(&ballast);
    let text = "write_buffer_size=256K;max_write_buffer_number=3;compression=kNoCompression;\
                disable_auto_compactions=true;bgerror_resume_retry_interval=20000";
    let mut options = options(text);
    let tables = DbPath { path: disk.path().join("tables"), target_size: u64::MAX };
    options.database_mut().db_paths = vec![tables];
    let db = Db::open(home.path(), &options).expect("a new database");
    let mut acknowledged = 0;
    let error = loop {
        let written = returns("a put", {
            let (db, key) = (db.clone(), format!("{acknowledged:06}"));
            move || put(&db, &key, &"v".repeat(4000))
        });
        match written {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < DISK / 4000, "the disk never was full");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert!(error.path().is_some_and(|path| path.starts_with(disk.path())), "{error}");
    assert!(db.background_error().is_some_and(|error| error.kind() == ErrorKind::NoSpace));
    let flushed = returns("a flush", {
        let db = db.clone();
        move || db.flush_all()
    });
    assert_eq!(failure(flushed).0, ErrorKind::NoSpace);
    PosixStorage::new().remove(&ballast).expect("room");
    eventually("writes are accepted again", || put(&db, "later", "1").is_ok());
    db.flush_all().expect("a flush");
    assert!(db.background_error().is_none());
    db.close().expect("closing");
    drop(db);
    let db = Db::open(home.path(), &options).expect("the database again");
    for key in 0..acknowledged {
        assert!(get(&db, &format!("{key:06}")).is_some(), "{key} is lost");
    }
}

#[test]
fn a_read_only_filesystem_refuses_writing_and_allows_reading() {
    let Some(disk) = Mounted::new("ext4", DISK, "a read-only filesystem") else { return };
    let path = disk.path().join("db");
    let db = Db::open(&path, &options("")).expect("a new database");
    put(&db, "a", "1").expect("a put");
    drop(db);
    disk.make_read_only();
    let (kind, text) = failure(Db::open(&path, &options("")));
    assert_eq!(kind, ErrorKind::Io);
    assert!(text.contains("LOCK") && text.contains("Read-only file system"), "{text}");
    let db = Db::open_read_only(&path, &options("")).expect("reading needs no writing");
    assert_eq!(get(&db, "a").as_deref(), Some("1"));
}
