//! Statistics that the database writes to its LOG.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tailwater::{Db, OpenOptions, Statistics, WriteOptions};

#[test]
fn the_log_gets_statistics_every_period() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = OpenOptions::default();
    options.set_from_string("create_if_missing=true;stats_dump_period_sec=1").expect("options");
    options.set_statistics(Arc::new(Statistics::new()));
    let db = Db::open(directory.path(), &options).expect("a new database");
    let family = db.cf_handle("default").expect("a family");
    db.put_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a put");
    let path = directory.path().join("LOG");
    let deadline = Instant::now() + Duration::from_secs(60);
    let log = loop {
        #[expect(clippy::disallowed_methods, reason = "a test looks at what was written")]
        let log = std::fs::read_to_string(&path).expect("a LOG");
        if log.matches("DUMPING STATS").count() >= 2 {
            break log;
        }
        assert!(Instant::now() < deadline, "no statistics in the LOG:\n{log}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let (first, second) = log
        .split_once("DUMPING STATS")
        .expect("the first")
        .1
        .split_once("DUMPING STATS")
        .expect("the second");
    assert!(first.contains("Interval writes: 1 writes, 1 keys"), "{first}");
    assert!(first.contains("** Compaction Stats [default] **"), "{first}");
    assert!(first.contains("rocksdb.number.keys.written COUNT : 1"), "{first}");
    assert!(second.contains("Cumulative writes: 1 writes, 1 keys"), "{second}");
    assert!(second.contains("Interval writes: 0 writes, 0 keys"), "{second}");
}
