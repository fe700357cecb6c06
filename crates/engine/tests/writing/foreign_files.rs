//! Tests that the files of somebody else, laid into the directory of an open database, are neither
//! replaced nor removed.

use std::path::{Path, PathBuf};

use tailwater::options::ColumnFamilyOptions;
use tailwater::{CompactRangeOptions, Db};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

use crate::support::{default_family, get, make_file, names, put, simulated, synced};

const DIRECTORY: &str = "/db";
const CONTENTS: &[u8] = b"a file of somebody else";

/// Returns the highest file number in the database's directory.
fn highest_number(disk: &SimStorage) -> u64 {
    let numbers = names(disk, Path::new(DIRECTORY)).into_iter().filter_map(|name| {
        let digits: String = name.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    numbers.max().expect("a database has numbered files")
}

/// Lays files of every numbered kind with the next `count` file numbers into the directory. Returns
/// their paths.
fn lay_files(disk: &SimStorage, count: u64) -> Vec<PathBuf> {
    let first = highest_number(disk) + 1;
    let mut paths = Vec::new();
    for number in first..first + count {
        let kinds = [
            format!("{number:06}.sst"),
            format!("{number:06}.log"),
            format!("{number:06}.dbtmp"),
            format!("MANIFEST-{number:06}"),
            format!("OPTIONS-{number:06}"),
        ];
        for name in kinds {
            let path = Path::new(DIRECTORY).join(name);
            let file = disk.create(&path, Create::New, IoMode::Buffered, Purpose::Metadata);
            let mut file = file.expect("a file");
            file.write_all_at(CONTENTS, 0, Purpose::Metadata).expect("a write");
            paths.push(path);
        }
    }
    paths
}

fn check_files(disk: &SimStorage, paths: &[PathBuf], after: &str) {
    for path in paths {
        let file = disk.open(path, IoMode::Buffered, Purpose::Metadata);
        let file = file.unwrap_or_else(|error| panic!("after {after}: {error}"));
        let mut bytes = vec![0; CONTENTS.len() + 1];
        let count = file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("a read");
        assert_eq!(&bytes[..count], CONTENTS, "after {after}: {}", path.display());
    }
}

/// Regression test: a flush failed because the file with its table's number existed, and removed
/// that file; so did `resume`, once for each further file. A new MANIFEST, a log over a
/// preallocated or recycled file and an OPTIONS file replaced the files that had their names.
#[test]
fn files_with_the_next_numbers_are_skipped() {
    let modes = [
        "",
        "wal_io_mode=direct",
        "recycle_log_file_num=2",
        "wal_io_mode=direct;recycle_log_file_num=2",
        "manual_wal_flush=true;avoid_flush_during_shutdown=true",
    ];
    for mode in modes {
        let disk = SimStorage::new(1);
        let mut options =
            simulated(&disk, "max_manifest_file_size=1;disable_auto_compactions=true");
        options.set_from_string(mode).expect("options");
        let db = Db::open(DIRECTORY, &options).expect("a database");
        let family = default_family(&db);
        make_file(&options, Path::new("/external.sst"), &["m"], "ingested");
        let mut laid = Vec::new();
        let mut step = |name: &str, work: &dyn Fn()| {
            laid.extend(lay_files(&disk, 10));
            work();
            check_files(&disk, &laid, &format!("{name}, {mode}"));
        };
        for round in 0..3 {
            step("a flush", &|| {
                put(&db, "a", &round.to_string()).expect("a put");
                put(&db, "z", &round.to_string()).expect("a put");
                db.flush_all().expect("a flush");
            });
        }
        step("a compaction", &|| {
            db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default())
                .expect("a compaction");
        });
        step("an ingestion", &|| {
            db.ingest_external_file(&["/external.sst"]).expect("an ingestion");
        });
        step("a new column family", &|| {
            db.create_cf("other", &ColumnFamilyOptions::default()).expect("a column family");
        });
        step("changed options", &|| {
            db.set_options(&[("write_buffer_size", "100000")]).expect("changed options");
        });
        step("a checkpoint", &|| {
            db.checkpoint("/checkpoint").expect("a checkpoint");
        });
        step("a failed log and resuming", &|| {
            let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write);
            disk.set_faults(FaultPlan::none().with(full.purpose(Purpose::Wal).from(0)));
            let refused = db.put_cf_opt(&family, b"b", b"refused", &synced());
            refused.expect_err("the disk is full");
            disk.set_faults(FaultPlan::none());
            db.resume().expect("there is space again");
            put(&db, "b", "accepted").expect("a put");
        });
        step("a failed flush and resuming", &|| {
            let broken = FaultRule::new(Fault::InputOutput).operation(Operation::Write);
            disk.set_faults(FaultPlan::none().with(broken.purpose(Purpose::FlushWrite).from(0)));
            db.flush_all().expect_err("the disk is broken");
            disk.set_faults(FaultPlan::none());
            db.resume().expect("the disk works again");
        });
        step("closing", &|| db.close().expect("closing"));
        drop((db, family));
        let db = Db::open(DIRECTORY, &options).expect("a database");
        for (key, value) in [("a", "2"), ("z", "2"), ("m", "ingested"), ("b", "accepted")] {
            assert_eq!(get(&db, key).as_deref(), Some(value), "{mode}");
        }
    }
}
