//! Ingestions that succeed, and files that an ingestion must reject.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailwater::{
    BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, ErrorKind, ExternalFiles,
    IngestOptions, IngestedFile, OpenOptions, ReadOptions, Result, SstFileWriter, WriteOptions,
};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

use crate::support::{
    default_family, failure, findings, get, get_from, make_file, names, options, property, put,
    simulated,
};

const PATH: &str = "/database";
const FILE: &str = "/outside/file.sst";

/// Returns a disk with a directory for files outside the database.
fn disk() -> SimStorage {
    let disk = SimStorage::new(1);
    disk.create_directory(Path::new("/outside")).expect("a directory");
    disk
}

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(Path::new(PATH), &simulated(disk, text)).expect("a database")
}

fn make(options: &OpenOptions, path: &str, keys: &[&str], value: &str) {
    make_file(options, Path::new(path), keys, value);
}

fn ingest(db: &Db, path: &str, options: &IngestOptions) -> Result<IngestedFile> {
    let mut files =
        db.ingest_external_file_cf_opts(&default_family(db), &[Path::new(path)], options)?;
    Ok(files.pop().expect("one file"))
}

/// Tries to ingest [`FILE`]. Checks that the ingestion is refused and changes nothing. Returns the
/// kind and the text of the error.
fn refused(disk: &SimStorage, db: &Db, options: &IngestOptions) -> (ErrorKind, String) {
    let state = || {
        let tables = names(disk, Path::new(PATH)).into_iter().filter(|name| name.ends_with("sst"));
        (tables.collect::<Vec<_>>(), db.latest_sequence_number())
    };
    let before = state();
    let reported = failure(ingest(db, FILE, options));
    assert_eq!(state(), before, "{reported:?}");
    reported
}

#[test]
fn a_file_without_overlap_is_ingested_into_the_last_level() {
    let disk = disk();
    let db = open(&disk, "");
    put(&db, "z", "older").expect("a put");
    make(&simulated(&disk, ""), FILE, &["a", "b"], "ingested");
    let file = ingest(&db, FILE, &IngestOptions::default()).expect("a file");
    assert_eq!((file.level, file.sequence, file.entries, file.is_copy), (6, 0, 2, true));
    assert_eq!(file.path, Path::new(FILE));
    assert_eq!(get(&db, "a").as_deref(), Some("ingested"));
    assert_eq!(db.latest_sequence_number(), 1);
    assert_eq!(property(&db, "rocksdb.num-entries-active-mem-table"), "1", "nothing was flushed");
    assert!(disk.metadata(Path::new(FILE)).is_ok(), "a copied file stays");
    drop(db);
    assert_eq!(findings(Path::new(PATH), &simulated(&disk, "")), []);
    assert_eq!(get(&open(&disk, ""), "b").as_deref(), Some("ingested"));
}

#[test]
fn an_overlapping_file_gets_a_sequence_number() {
    let disk = disk();
    let db = open(&disk, "");
    put(&db, "b", "older").expect("a put");
    make(&simulated(&disk, ""), FILE, &["a", "c"], "ingested");
    let mut writer = SstFileWriter::new(&simulated(&disk, ""), "default").expect("a writer");
    writer.open(Path::new("/outside/range.sst")).expect("a file");
    writer.delete_range(b"a", b"bb").expect("a range deletion");
    let info = writer.finish().expect("a whole file");
    assert_eq!((info.num_entries, info.num_range_del_entries), (0, 1));
    assert_eq!(
        (&info.smallest_range_del_key[..], &info.largest_range_del_key[..]),
        (&b"a"[..], &b"bb"[..])
    );
    let file = ingest(&db, FILE, &IngestOptions::default()).expect("a file");
    assert_eq!((file.level, file.sequence), (0, 2), "b lies between a and c");
    let file = ingest(&db, "/outside/range.sst", &IngestOptions::default()).expect("a file");
    assert_eq!((file.level, file.sequence, file.range_deletions), (0, 3, 1));
    assert_eq!((get(&db, "a"), get(&db, "b")), (None, None));
    assert_eq!(get(&db, "c").as_deref(), Some("ingested"));
    put(&db, "b", "newer").expect("a put");
    assert_eq!(db.latest_sequence_number(), 4);
    assert_eq!(get(&db, "b").as_deref(), Some("newer"));
}

#[test]
fn snapshots_see_no_ingested_file_unless_consistency_is_off() {
    let disk = disk();
    let db = open(&disk, "");
    let snapshot = db.snapshot();
    make(&simulated(&disk, ""), FILE, &["a"], "ingested");
    let file = ingest(&db, FILE, &IngestOptions::default()).expect("a file");
    assert_eq!((file.level, file.sequence), (6, 1));
    make(&simulated(&disk, ""), FILE, &["c"], "ingested");
    let careless = IngestOptions::new().with_snapshot_consistency(false);
    let file = ingest(&db, FILE, &careless).expect("a file");
    assert_eq!((file.level, file.sequence), (6, 0));
    let options = ReadOptions::new().with_snapshot(snapshot);
    let family = default_family(&db);
    assert_eq!(db.get_cf_opt(&family, b"a", &options).expect("a get"), None);
    assert_eq!(db.get_cf_opt(&family, b"c", &options).expect("a get"), Some(b"ingested".to_vec()));
    assert_eq!(get(&db, "a").as_deref(), Some("ingested"));
}

#[test]
fn the_last_of_overlapping_ingested_files_wins() {
    let disk = disk();
    let db = open(&disk, "");
    let options = simulated(&disk, "");
    let paths = ["/outside/1.sst", "/outside/2.sst", "/outside/3.sst"];
    make(&options, paths[0], &["a", "b", "c"], "first");
    make(&options, paths[1], &["b"], "second");
    make(&options, paths[2], &["c", "d"], "third");
    let family = default_family(&db);
    let files = db
        .ingest_external_file_cf_opts(&family, &paths.map(Path::new), &IngestOptions::default())
        .expect("files");
    let places: Vec<_> = files.iter().map(|file| (file.level, file.sequence)).collect();
    assert_eq!(places, [(6, 1), (0, 2), (0, 3)]);
    let found = ["a", "b", "c", "d"].map(|key| get(&db, key).expect("a value"));
    assert_eq!(found, ["first", "second", "third", "third"]);
}

#[test]
fn files_are_linked_moved_or_copied() {
    let disk = disk();
    let db = open(&disk, "");
    let options = simulated(&disk, "");
    let moves = IngestOptions::new().with_move_files(true);
    make(&options, FILE, &["a"], "moved");
    assert!(!ingest(&db, FILE, &moves).expect("a file").is_copy);
    assert!(disk.metadata(Path::new(FILE)).is_err(), "the first name goes");
    make(&options, FILE, &["b"], "linked");
    let links = IngestOptions::new().with_link_files(true);
    assert!(!ingest(&db, FILE, &links).expect("a file").is_copy);
    assert!(disk.metadata(Path::new(FILE)).is_ok(), "the first name stays");
    // The file is now also a table of the database, by a hard link, and stays that.
    make(&options, FILE, &["c"], "copied");
    let no_links = FaultRule::new(Fault::InputOutput).operation(Operation::Link).from(0);
    disk.set_faults(FaultPlan::none().with(no_links));
    let only_moves = moves.with_failed_move_fall_back_to_copy(false);
    let (_, message) = refused(&disk, &db, &only_moves);
    assert!(message.contains("link"), "{message}");
    assert!(ingest(&db, FILE, &moves).expect("a file").is_copy);
    assert_eq!(
        ["a", "b", "c"].map(|key| get(&db, key).expect("a value")),
        ["moved", "linked", "copied"]
    );
}

/// Regression test: ingesting a table of the database itself with `move_files` removed the table's
/// original name.
#[test]
fn a_table_of_the_database_is_not_moved() {
    let disk = disk();
    let db = open(&disk, "");
    let options = simulated(&disk, "");
    let family = db.create_cf("other", &Default::default()).expect("a column family");
    make(&options, FILE, &["a"], "ingested");
    ingest(&db, FILE, &IngestOptions::default()).expect("a file");
    let table = db.live_files()[0].path.clone();
    let [by_symbolic_link, by_hard_link, by_directory] =
        ["/outside/symbolic.sst", "/outside/hard.sst", "/directory"].map(Path::new);
    disk.create_symbolic_link(&table, by_symbolic_link).expect("a symbolic link");
    disk.link(&table, by_hard_link).expect("a hard link");
    disk.create_symbolic_link(Path::new(PATH), by_directory).expect("a symbolic link");
    let name = table.file_name().expect("a name");
    let paths = [
        table.clone(),
        by_symbolic_link.to_owned(),
        by_hard_link.to_owned(),
        by_directory.join(name),
        Path::new("/outside/../database").join(name),
    ];
    let moves = IngestOptions::new().with_move_files(true);
    make(&options, "/outside/other.sst", &["b"], "moved with it");
    for path in &paths {
        for family in [&default_family(&db), &family] {
            let files = [Path::new("/outside/other.sst"), path];
            let (kind, message) = failure(db.ingest_external_file_cf_opts(family, &files, &moves));
            assert_eq!(kind, ErrorKind::InvalidArgument, "{message}");
            assert!(message.contains(&path.display().to_string()), "{message}");
            assert!(message.contains(&table.display().to_string()), "{message}");
        }
    }
    assert_eq!(db.live_files().len(), 1);
    // A table file of the database may be ingested by linking or copying, since the file keeps its
    // original name. Moving it was refused above.
    let links = IngestOptions::new().with_link_files(true);
    for (path, options) in paths.iter().zip([links, IngestOptions::default()]) {
        db.ingest_external_file_cf_opts(&family, &[path], &options).expect("a file");
    }
    drop(db);
    assert_eq!(findings(Path::new(PATH), &options), []);
    let db = open(&disk, "");
    let family = db.cf_handle("other").expect("a column family");
    assert_eq!(get(&db, "a").as_deref(), Some("ingested"));
    assert_eq!(get_from(&db, &family, "a").as_deref(), Some("ingested"));
}

/// Regression test: an iterator still read a table that the database no longer needed. An ingestion
/// of this table with `move_files` removed the table's file from the database directory.
#[test]
fn a_table_that_is_still_read_is_not_moved() {
    let disk = disk();
    let db = open(&disk, "");
    make(&simulated(&disk, ""), FILE, &["a", "b"], "ingested");
    ingest(&db, FILE, &IngestOptions::default()).expect("a file");
    let table = db.live_files()[0].path.clone();
    let mut iterator =
        db.raw_iterator_cf_opt(&default_family(&db), &ReadOptions::default()).expect("an iterator");
    put(&db, "a", "newer").expect("a put");
    let force =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    db.compact_range_cf_opt(&default_family(&db), None, None, &force).expect("a compaction");
    assert!(db.live_files().iter().all(|file| file.path != table));
    let moves = IngestOptions::new().with_move_files(true);
    let (kind, _) =
        failure(db.ingest_external_file_cf_opts(&default_family(&db), &[&table], &moves));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    iterator.seek(b"b").expect("a seek");
    assert_eq!(iterator.item(), Some((&b"b"[..], &b"ingested"[..])));
}

#[test]
fn a_file_named_twice_is_ingested_twice() {
    let disk = disk();
    let db = open(&disk, "");
    let options = simulated(&disk, "");
    make(&options, FILE, &["a"], "ingested");
    let link = Path::new("/outside/link.sst");
    disk.create_symbolic_link(Path::new(FILE), link).expect("a symbolic link");
    let other = db.create_cf("other", &Default::default()).expect("a column family");
    let moves = IngestOptions::new().with_move_files(true);
    let (twice, once) = ([Path::new(FILE), link, Path::new(FILE)], [Path::new(FILE)]);
    let family = default_family(&db);
    let requests = [(&family, &twice[..]), (&other, &once[..])]
        .map(|(family, paths)| ExternalFiles { family, paths, options: moves });
    let taken_in = db.ingest_external_files(&requests).expect("files");
    assert_eq!(taken_in.concat().len(), 4);
    assert!(disk.metadata(Path::new(FILE)).is_err() && disk.metadata(link).is_err());
    db.close().expect("closing");
    assert_eq!(findings(Path::new(PATH), &options), []);
    let db = open(&disk, "");
    let other = db.cf_handle("other").expect("a column family");
    assert_eq!(get(&db, "a").as_deref(), Some("ingested"));
    assert_eq!(get_from(&db, &other, "a").as_deref(), Some("ingested"));
}

/// Regression test: ingesting a symbolic link with `move_files` moved the link instead of the file.
/// When the link's target was removed, the table was lost.
#[test]
fn ingesting_a_symbolic_link_ingests_its_target() {
    for moves in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let [path, file, link] = ["db", "file", "link"].map(|name| directory.path().join(name));
        let db = Db::open(&path, &options("")).expect("a database");
        make_file(&options(""), &file, &["a"], "value");
        std::os::unix::fs::symlink(&file, &link).expect("a symbolic link");
        let moving = IngestOptions::new().with_move_files(moves).with_link_files(!moves);
        let taken_in = db
            .ingest_external_file_cf_opts(&default_family(&db), &[&link], &moving)
            .expect("a file");
        assert!(!taken_in[0].is_copy);
        assert_eq!(link.is_symlink(), !moves);
        db.close().expect("closing");
        db.storage().remove(&file).expect("clearing up");
        assert_eq!(findings(&path, &options("")), []);
        assert_eq!(
            get(&Db::open(&path, &options("")).expect("a database"), "a").as_deref(),
            Some("value")
        );
    }
}

#[test]
fn ingestions_that_their_options_forbid_are_refused() {
    let disk = disk();
    let db = open(&disk, "disable_auto_compactions=true");
    let all = IngestOptions::default();
    make(&simulated(&disk, ""), FILE, &["a", "c"], "ingested");
    put(&db, "b", "older").expect("a put");
    let (kind, message) = refused(&disk, &db, &all.with_allow_blocking_flush(false));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(message.contains("allow_blocking_flush") && message.contains(FILE), "{message}");
    db.flush_all().expect("a flush");
    let (kind, message) = refused(&disk, &db, &all.with_allow_global_seqno(false));
    assert_eq!(kind, ErrorKind::InvalidArgument);
    assert!(message.contains("allow_global_seqno") && message.contains(FILE), "{message}");
    let last = all.with_fail_if_not_bottommost_level(true);
    let (kind, message) = refused(&disk, &db, &last);
    assert_eq!(kind, ErrorKind::Busy);
    assert!(message.contains("level 0") && message.contains(FILE), "{message}");
    let not_built = [
        (all.with_ingest_behind(true), "ingest_behind"),
        (all.with_write_global_seqno(true), "write_global_seqno"),
        (all.with_allow_db_generated_files(true), "allow_db_generated_files"),
    ];
    for (options, name) in not_built {
        let (kind, message) = refused(&disk, &db, &options);
        assert!(kind == ErrorKind::NotSupported && message.contains(name), "{message}");
    }
    let both = all.with_move_files(true).with_link_files(true);
    assert_eq!(refused(&disk, &db, &both).0, ErrorKind::InvalidArgument);
}

#[test]
fn files_unsuitable_for_the_column_family_are_refused_by_name() {
    let disk = disk();
    let db = open(&disk, "");
    let family = default_family(&db);
    let other = db.create_cf("other", &family.options()).expect("a column family");
    let mine = simulated(&disk, "");
    let careful = IngestOptions::new().with_verify_checksums_before_ingest(true);
    let refused = |expected: ErrorKind, part: &str| {
        let (kind, message) = refused(&disk, &db, &careful);
        assert!(kind == expected && message.contains(part), "{message}");
        assert!(message.contains(FILE), "{message}");
    };
    refused(ErrorKind::NotFound, "");
    let write = |bytes: &[u8]| {
        let path = Path::new(FILE);
        let file = disk.create(path, Create::Truncate, IoMode::Buffered, Purpose::Ingestion);
        file.expect("a file").write_all_at(bytes, 0, Purpose::Ingestion).expect("a write");
    };
    write(b"no table");
    refused(ErrorKind::Corruption, "footer");
    make(&simulated(&disk, "comparator=rocksdb.ReverseBytewiseComparator"), FILE, &["b"], "value");
    refused(ErrorKind::InvalidArgument, "comparator is 'rocksdb.ReverseBytewiseComparator'");
    let mut writer = SstFileWriter::new(&mine, "default").expect("a writer");
    writer = writer.for_column_family(&other);
    writer.open(Path::new(FILE)).expect("a file");
    writer.put(b"key", b"value").expect("a put");
    writer.finish().expect("a whole file");
    refused(ErrorKind::InvalidArgument, "for column family 'other'");
    let path = [Path::new(FILE)];
    db.ingest_external_file_cf_opts(&other, &path, &careful).expect("the family it is for");
    assert_eq!(get_from(&db, &other, "key").as_deref(), Some("value"));

    put(&db, "key", "value").expect("a put");
    db.flush_all().expect("a flush");
    let own = names(&disk, Path::new(PATH)).into_iter().rfind(|name| name.ends_with("sst"));
    write(&read(&disk, &Path::new(PATH).join(own.expect("a table"))));
    refused(ErrorKind::Corruption, "not made to be ingested");

    let keys: Vec<String> = (0..500).map(|at| format!("key{at:04}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    make(&mine, FILE, &keys, "a value");
    let mut bytes = read(&disk, Path::new(FILE));
    bytes[700] ^= 1;
    write(&bytes);
    refused(ErrorKind::Corruption, "checksum");
}

fn read(disk: &SimStorage, path: &Path) -> Vec<u8> {
    let file = disk.open(path, IoMode::Buffered, Purpose::Ingestion).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Ingestion).expect("its bytes");
    bytes
}

#[test]
fn invalid_ingestion_calls_are_refused() {
    let disk = disk();
    let db = open(&disk, "");
    let family = default_family(&db);
    let all = IngestOptions::default();
    let kind = |result: Result<_>| failure(result).0;
    assert_eq!(
        kind(db.ingest_external_file_cf_opts(&family, &[""; 0], &all)),
        ErrorKind::InvalidArgument
    );
    let paths = [Path::new(FILE)];
    let files = ExternalFiles { family: &family, paths: &paths, options: all };
    let (kind, message) = failure(db.ingest_external_files(&[files, files]));
    assert!(kind == ErrorKind::InvalidArgument && message.contains("twice"), "{message}");
    db.close().expect("closing");
    assert_eq!(failure(ingest(&db, FILE, &all)).0, ErrorKind::Closed);
    drop(db);
    let db = Db::open_read_only(Path::new(PATH), &simulated(&disk, "")).expect("a database");
    assert_eq!(failure(ingest(&db, FILE, &all)).0, ErrorKind::ReadOnly);
}

#[test]
fn a_file_writer_refuses_invalid_calls_and_stays_usable() {
    let disk = disk();
    let mut writer = SstFileWriter::new(&simulated(&disk, ""), "default").expect("a writer");
    assert_eq!(failure(writer.put(b"key", b"")).0, ErrorKind::InvalidArgument);
    assert_eq!(failure(writer.finish()).0, ErrorKind::InvalidArgument);
    writer.open(Path::new(FILE)).expect("a file");
    assert_eq!(failure(writer.open(Path::new("/outside/other.sst"))).0, ErrorKind::InvalidArgument);
    let (kind, message) = failure(writer.finish());
    assert!(kind == ErrorKind::InvalidArgument && message.contains("without entries"));
    writer.put(b"m", b"value").expect("a put");
    for key in [b"m", b"a"] {
        let (kind, message) = failure(writer.delete(key));
        assert!(kind == ErrorKind::InvalidArgument && message.contains(FILE), "{message}");
    }
    assert_eq!(failure(writer.delete_range(b"z", b"a")).0, ErrorKind::InvalidArgument);
    writer.delete_range(b"a", b"a").expect("nothing");
    writer.merge(b"n", b"operand").expect("an operand");
    let info = writer.finish().expect("a whole file");
    assert_eq!((&info.smallest_key[..], &info.largest_key[..]), (&b"m"[..], &b"n"[..]));
    assert_eq!((info.num_entries, info.num_range_del_entries, info.version), (2, 0, 2));
    assert_eq!(info.file_size, disk.metadata(Path::new(FILE)).expect("a file").length);
    assert_eq!(failure(writer.finish()).0, ErrorKind::InvalidArgument);
    writer.open(Path::new("/outside/given up.sst")).expect("the next file");
    drop(writer);
    assert_eq!(names(&disk, Path::new("/outside")), ["file.sst"]);
}

#[test]
fn a_failed_file_copy_leaves_nothing() {
    for operation in [Operation::Write, Operation::Sync, Operation::Read] {
        let disk = disk();
        let db = open(&disk, "");
        make(&simulated(&disk, ""), FILE, &["a"], "value");
        let fault = FaultRule::new(Fault::InputOutput).operation(operation);
        disk.set_faults(FaultPlan::none().with(fault.purpose(Purpose::Ingestion).at(0)));
        let (kind, _) = refused(&disk, &db, &IngestOptions::default());
        assert_eq!(kind, ErrorKind::Io, "{operation:?}");
        ingest(&db, FILE, &IngestOptions::default()).expect("the database goes on");
        assert_eq!(get(&db, "a").as_deref(), Some("value"));
    }
}

/// Regression test: if a file with the name of the new table existed, the ingestion removed that
/// file.
#[test]
fn an_existing_file_with_the_ingested_files_name_stays() {
    let disk = disk();
    let db = open(&disk, "");
    for (number, links) in [false, true].into_iter().enumerate() {
        let key = number.to_string();
        make(&simulated(&disk, ""), FILE, &[&key], "value");
        let taken_in = ingest(&db, FILE, &IngestOptions::default()).expect("a file");
        let next = Path::new(PATH).join(format!("{:06}.sst", taken_in.number + 1));
        disk.link(Path::new(FILE), &next).expect("a file of somebody's");
        let other = disk.identity(&next).expect("somebody's file");
        let options = IngestOptions::new().with_link_files(links);
        let skipping = ingest(&db, FILE, &options).expect("the number is skipped");
        assert_eq!(skipping.number, taken_in.number + 2);
        assert_eq!(disk.identity(&next).expect("somebody's file"), other);
    }
}

#[test]
fn ingestions_are_logged_and_counted() {
    let disk = disk();
    let db = open(&disk, "");
    make(&simulated(&disk, ""), FILE, &["a", "b"], "value");
    ingest(&db, FILE, &IngestOptions::default()).expect("a file");
    let stats = property(&db, "rocksdb.cfstats-no-file-histogram");
    for line in ["AddFile(Total Files): cumulative 1, ", "AddFile(Keys): cumulative 2, "] {
        assert!(stats.contains(line), "{stats}");
    }
    let log = String::from_utf8(read(&disk, &Path::new(PATH).join("LOG"))).expect("text");
    let line = "ingested /outside/file.sst into level 6 of 'default' as table";
    assert!(log.contains(line), "{log}");
}

/// Number of ingestions of the test below, and number of keys in each file.
const REPEATS: usize = 60;
const KEYS: usize = 40;

/// Tests that a read at a snapshot shows an ingestion either completely, in all column families, or
/// not at all. Meanwhile other keys, between the ingested ones, are written, flushed and compacted.
#[test]
fn ingestions_are_atomic_to_concurrent_readers_and_writers() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "write_buffer_size=65536;level0_file_num_compaction_trigger=2;\
                target_file_size_base=20000;max_bytes_for_level_base=50000;max_background_jobs=3";
    let options = options(text);
    let db = Db::open(directory.path().join("db"), &options).expect("a database");
    let first = default_family(&db);
    let second = db.create_cf("second", &first.options()).expect("a column family");
    let families = [first, second];
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..REPEATS {
                let paths = families.each_ref().map(|family| {
                    let path = directory.path().join(format!("{}{number}.sst", family.name()));
                    make_numbered(&options, &path, number);
                    path
                });
                let paths: Vec<[&Path; 1]> =
                    paths.iter().map(|path: &PathBuf| [path.as_path()]).collect();
                let files = families.iter().zip(&paths).map(|(family, paths)| ExternalFiles {
                    family,
                    paths,
                    options: IngestOptions::new().with_move_files(true),
                });
                let files: Vec<_> = files.collect();
                db.ingest_external_files(&files).expect("an ingestion");
            }
            is_done.store(true, Ordering::Release);
        });
        scope.spawn(|| write_until(&db, &families, &is_done));
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                check_whole(&db, &families);
            }
        });
    });
    check_whole(&db, &families);
    db.close().expect("closing");
    assert_eq!(findings(&directory.path().join("db"), &options), []);
}

fn make_numbered(options: &OpenOptions, path: &Path, number: usize) {
    let mut writer = SstFileWriter::new(options, "default").expect("a writer");
    writer.open(path).expect("a file");
    for key in 0..KEYS {
        let value = number.to_string();
        writer.put(format!("ingested{key:03}").as_bytes(), value.as_bytes()).expect("a put");
    }
    writer.finish().expect("a whole file");
}

/// Puts keys that lie between the ingested keys, until `is_done` is set.
fn write_until(db: &Db, families: &[ColumnFamily], is_done: &AtomicBool) {
    let mut number = 0_usize;
    while !is_done.load(Ordering::Acquire) {
        number += 1;
        let key = format!("ingested{:03} and more", number % KEYS);
        let value = number.to_string().repeat(20);
        let family = &families[number % families.len()];
        db.put_cf_opt(family, key.as_bytes(), value.as_bytes(), &WriteOptions::default())
            .expect("a put");
    }
}

/// Asserts that at a new snapshot all ingested keys have the same value in all column families.
fn check_whole(db: &Db, families: &[ColumnFamily]) {
    let options = ReadOptions::new().with_snapshot(db.snapshot());
    let mut seen = Vec::new();
    for family in families {
        for key in 0..KEYS {
            let key = format!("ingested{key:03}");
            seen.push(db.get_cf_opt(family, key.as_bytes(), &options).expect("a get"));
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
}
