//! Effects of the options that set the I/O mode for a purpose: which table files are opened for
//! direct I/O.

use std::collections::BTreeSet;
use std::path::Path;

use tailwater::options::{DbOptions, OptionTable, TailwaterOptions};
use tailwater::{IngestOptions, SstFileWriter};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, Opening, SimStorage};
use tailwater_io::{IoMode, Operation, Purpose, Storage};

use super::support::{DB, Scene, options, try_open};

/// Whether a table file was opened for reading or created for writing, and for which purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Read(Purpose),
    Written(Purpose),
}

use Done::{Read, Written};

/// The options of every database. The outputs of flushes and compactions are read back for
/// verification. Few tables stay open, so user reads must open tables again.
const ALWAYS: &str = "paranoid_file_checks=true;max_open_files=20;disable_auto_compactions=true";

/// Fills a database, compacts it, reads it, ingests a table, makes a checkpoint by copying, and
/// reopens the database. Returns the table files that were opened or created meanwhile.
fn work(text: &str) -> Vec<(Done, Opening)> {
    let disk = SimStorage::new(1);
    disk.start_recording();
    let scene = try_open(&disk, &format!("{ALWAYS};{text}")).expect("a new database");
    for _ in 0..3 {
        scene.fill(0, 200, 100);
        scene.flush();
    }
    scene.compact();
    assert!(scene.get("000100").is_some());
    ingest(&scene, text);
    disk.set_faults(
        FaultPlan::none()
            .with(FaultRule::new(Fault::InputOutput).operation(Operation::Link).from(0)),
    );
    scene.db.checkpoint(Path::new("/checkpoint")).expect("a checkpoint");
    disk.set_faults(FaultPlan::none());
    let scene = scene.reopen(&format!("{ALWAYS};{text}"));
    assert!(scene.get("000101").is_some());
    tables_opened(&disk)
}

fn ingest(scene: &Scene, text: &str) {
    let outside = Path::new("/outside");
    scene.disk.create_directory(outside).expect("a directory");
    let path = outside.join("file.sst");
    let mut writer = SstFileWriter::new(&options(&scene.disk, text), "default").expect("a writer");
    writer.open(&path).expect("a file");
    writer.put(b"ingested", b"value").expect("a put");
    writer.finish().expect("a table");
    let copied = IngestOptions::default();
    scene
        .db
        .ingest_external_file_cf_opts(&scene.family(), &[&path], &copied)
        .expect("an ingestion");
}

/// Returns the table files that were opened or created, in order. None of these opens and creations
/// may have failed. This function pairs calls with openings in order, but only the calls include
/// failed ones.
fn tables_opened(disk: &SimStorage) -> Vec<(Done, Opening)> {
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "sst");
    let calls = disk.calls().into_iter().filter(|call| {
        matches!(call.operation, Operation::Open | Operation::Create) && is_table(&call.path)
    });
    let openings = disk.openings().into_iter().filter(|opening| is_table(&opening.path));
    let both = calls.zip(openings).map(|(call, opening)| {
        assert_eq!(call.path, opening.path);
        let purpose = opening.purpose;
        let reads = call.operation == Operation::Open;
        (if reads { Read(purpose) } else { Written(purpose) }, opening)
    });
    both.collect()
}

/// Returns for which purposes table files were opened in this I/O mode.
fn done_in(opened: &[(Done, Opening)], mode: IoMode) -> BTreeSet<Done> {
    opened.iter().filter(|(_, opening)| opening.mode == mode).map(|(done, _)| *done).collect()
}

/// User reads and compactions may share a table reader. These are the purposes for which a shared
/// table reader may be opened.
const FOR_EVERYBODY: [Done; 4] = [
    Read(Purpose::UserRead),
    Read(Purpose::FlushWrite),
    Read(Purpose::CompactionWrite),
    Read(Purpose::CompactionRead),
];

/// Checks that, with the options in `text`, table files are opened for direct I/O for exactly the
/// purposes in `to_direct`.
fn switches(text: &str, to_direct: &[Done]) {
    let opened = work(text);
    let direct = done_in(&opened, IoMode::Direct);
    let expected: BTreeSet<Done> = to_direct.iter().copied().collect();
    assert_eq!(direct, expected, "{text}");
}

effects! {
    nothing_is_direct_by_default shows "verification_io_mode" {
        switches("", &[]);
        switches("verification_io_mode=direct", &[Read(Purpose::Verification)]);
    }

    compactions_read_in_a_mode_of_their_own shows
        "use_direct_io_for_compaction_reads", "compaction_read_io_mode" {
        let read = [Read(Purpose::CompactionRead), Read(Purpose::Verification)];
        switches("use_direct_io_for_compaction_reads=true", &read);
        switches("use_direct_reads_for_compaction=true", &read);
        switches("compaction_read_io_mode=direct;verification_io_mode=buffered", &read[..1]);
        // Tailwater's option `compaction_read_io_mode` takes precedence over RocksDB's flag.
        switches("use_direct_io_for_compaction_reads=true;compaction_read_io_mode=buffered", &[]);
    }

    users_read_in_a_mode_of_their_own shows "use_direct_reads", "user_read_io_mode" {
        let opened = work("use_direct_reads=true");
        let direct = done_in(&opened, IoMode::Direct);
        assert!(direct.contains(&Read(Purpose::UserRead)), "{direct:?}");
        assert!(direct.iter().all(|done| matches!(done, Read(_))), "{direct:?}");
        // With `use_direct_reads`, user reads are direct, and compactions use the same table
        // readers. So no table is opened for buffered reads.
        let buffered = done_in(&opened, IoMode::Buffered);
        assert!(FOR_EVERYBODY.iter().all(|done| !buffered.contains(done)), "{buffered:?}");
        let opened = work("user_read_io_mode=direct");
        assert!(done_in(&opened, IoMode::Direct).contains(&Read(Purpose::UserRead)));
        // User reads are direct, but compactions are not, so compactions open buffered readers of
        // their own.
        assert!(done_in(&opened, IoMode::Buffered).contains(&Read(Purpose::CompactionRead)));
    }

    compactions_and_flushes_write_in_modes_of_their_own shows
        "compaction_write_io_mode", "flush_write_io_mode" {
        let (compactions, flushes) = (Written(Purpose::CompactionWrite), Written(Purpose::FlushWrite));
        switches("use_direct_io_for_flush_and_compaction=true", &[compactions, flushes]);
        switches("compaction_write_io_mode=direct", &[compactions]);
        switches("flush_write_io_mode=direct", &[flushes]);
    }

    direct_io_is_split_into_requests shows "direct_request_size" {
        let requests = |size: u64| {
            let disk = SimStorage::new(1);
            let text = format!(
                "use_direct_io_for_compaction_reads=true;direct_request_size={size};\
                 use_direct_io_for_flush_and_compaction=true"
            );
            let scene = try_open(&disk, &format!("{ALWAYS};{text}")).expect("a new database");
            for _ in 0..3 {
                scene.fill(0, 600, 100);
                scene.flush();
            }
            scene.compact();
            let reads = disk.statistics().snapshot(Purpose::CompactionRead);
            let writes = disk.statistics().snapshot(Purpose::CompactionWrite);
            let read = reads.read_bytes / reads.reads.count;
            (read, writes.written_bytes / writes.writes.count)
        };
        let (small, large) = (requests(4096), requests(65_536));
        assert!(small.0 * 2 < large.0 && small.1 * 2 < large.1, "{small:?}, {large:?}");
    }

    random_access_is_advised_for_users_reads shows "advise_random_on_open" {
        for (text, is_reported) in [("", true), ("advise_random_on_open=false", false)] {
            let disk = SimStorage::new(1);
            let scene = try_open(&disk, text).expect("a new database");
            scene.put("a", "1");
            scene.flush();
            assert_eq!(disk.advised_random() > 0, is_reported, "{text}");
        }
    }

    compactions_hand_over_warm_blocks shows "warm_handover" {
        const MISS: &str = "rocksdb.block.cache.data.miss";
        // Reads hot keys before and after a compaction. Returns how many data blocks the second
        // reading misses in the block cache, and how many blocks the compaction handed over.
        let misses = |text: &str| {
            let always = "use_direct_reads=true;disable_auto_compactions=true";
            let scene = try_open(&SimStorage::new(1), &format!("{always};{text}"));
            let scene = scene.expect("a new database");
            scene.fill(0, 600, 100);
            scene.flush();
            scene.compact();
            let read =
                || (0..100).for_each(|key| assert!(scene.get(&format!("{key:06}")).is_some()));
            read();
            scene.fill(300, 900, 100);
            scene.flush();
            scene.compact();
            let before = scene.ticker(MISS);
            read();
            (scene.ticker(MISS) - before, scene.ticker("tailwater.handover.blocks"))
        };
        let direct = "use_direct_io_for_flush_and_compaction=true";
        let (missed, none) = misses(&format!("{direct};warm_handover=false"));
        assert!(missed > 2 && none == 0, "{missed}, {none}");
        assert_eq!(misses(direct), (0, missed));
        // Warm handover does nothing for a compaction that writes through the page cache.
        assert_eq!(misses(""), (missed, 0));
    }

    written_blocks_are_added_to_the_block_cache shows "prepopulate_block_cache" {
        const MISS: &str = "rocksdb.block.cache.data.miss";
        for (choice, by_flushes, by_compactions) in [
            ("kDisable", false, false),
            ("kFlushOnly", true, false),
            ("kFlushAndCompaction", true, true),
        ] {
            let text = format!(
                "disable_auto_compactions=true;\
                 block_based_table_factory={{prepopulate_block_cache={choice}}}"
            );
            let scene = try_open(&SimStorage::new(1), &text).expect("a new database");
            let misses = || {
                let before = scene.ticker(MISS);
                (0..200).for_each(|key| assert!(scene.get(&format!("{key:06}")).is_some()));
                scene.ticker(MISS) - before
            };
            scene.fill(0, 200, 100);
            scene.flush();
            assert_eq!(misses() == 0, by_flushes, "{choice}");
            scene.fill(0, 200, 100);
            scene.flush();
            scene.compact();
            assert_eq!(misses() == 0, by_compactions, "{choice}");
        }
    }

    ingestion_and_checkpoints_have_modes shows "ingestion_io_mode", "checkpoint_io_mode" {
        let opened = work("ingestion_io_mode=direct");
        assert!(done_in(&opened, IoMode::Direct).contains(&Written(Purpose::Ingestion)));
        assert!(!done_in(&opened, IoMode::Buffered).contains(&Written(Purpose::Ingestion)));
        let copied = [Read(Purpose::Checkpoint), Written(Purpose::Checkpoint)];
        switches("checkpoint_io_mode=direct", &copied);
    }

    indirect_modes_are_used_as_given shows "compaction_read_io_mode" {
        for (name, mode) in [("uncached", IoMode::Uncached), ("fadvise", IoMode::DropBehind)] {
            let text = format!("compaction_read_io_mode={name};compaction_write_io_mode={name}");
            let done = done_in(&work(&text), mode);
            assert!(done.contains(&Read(Purpose::CompactionRead)), "{text}: {done:?}");
            assert!(done.contains(&Written(Purpose::CompactionWrite)), "{text}: {done:?}");
        }
    }

    refused_direct_io_is_an_error_or_falls_back shows "compaction_read_io_mode" {
        let disk = SimStorage::new(1);
        disk.create_directory(DB.as_ref()).expect("a directory");
        disk.refuse_direct(DB.as_ref());
        let error = try_open(&disk, "compaction_read_io_mode=direct").err().expect("a refusal");
        let reported = error.to_string();
        for part in ["compaction_read_io_mode", DB, "simulated"] {
            assert!(reported.contains(part), "{reported}");
        }
        let scene = try_open(&disk, "compaction_read_io_mode=auto").expect("a new database");
        let modes = scene.property("tailwater.io-modes");
        let line = "compaction_read: asked auto by compaction_read_io_mode, effective buffered";
        assert!(modes.lines().any(|found| found == line), "{modes}");
        let log = scene.log();
        let warnings = log.lines().filter(|line| line.contains(" WARN ") && line.contains(DB));
        assert!(warnings.count() == 1 && log.contains(&format!("I/O mode of {line}")), "{log}");
    }
}

#[test]
fn a_read_only_database_reports_its_effective_io_modes() {
    let disk = SimStorage::new(1);
    let text =
        "use_direct_io_for_compaction_reads=true;use_direct_io_for_flush_and_compaction=true";
    let scene = try_open(&disk, text).expect("a new database");
    scene.put("a", "1");
    scene.flush();
    drop(scene);
    let db = tailwater::Db::open_read_only(DB, &options(&disk, text)).expect("it");
    let family = db.cf_handle("default").expect("the default column family");
    let modes =
        db.property_value_cf(&family, "tailwater.io-modes").expect("a property").expect("modes");
    let line =
        |purpose: &str| modes.lines().find(|line| line.starts_with(purpose)).expect("a line");
    assert!(line("compaction_read:").ends_with("effective direct"), "{modes}");
    let unknown = "effective unknown until the database is opened for writing";
    assert!(line("compaction_write:").ends_with(unknown), "{modes}");
}

/// Returns how many requests of a compaction were delayed after recent reads by users. Each of
/// these reads took the device `duration_ns`.
fn held_back(text: &str, duration_ns: u64) -> u64 {
    let disk = SimStorage::new(1);
    let mut options = options(&disk, &format!("{ALWAYS};direct_request_size=4096;{text}"));
    // Background work is delayed only if it runs in background threads.
    options.set_inline_background(false);
    let db = tailwater::Db::open(DB, &options).expect("a new database");
    let scene = Scene { disk: disk.clone(), db, statistics: Default::default() };
    for _ in 0..3 {
        scene.fill(0, 600, 100);
        scene.flush();
    }
    let foreground = disk.statistics().foreground();
    disk.clock().advance(10_000_000_000);
    for duration_ns in [100_000, duration_ns, duration_ns, duration_ns] {
        (0..10).for_each(|_| foreground.record(4096, duration_ns));
        foreground.depth(8, 0, true);
        disk.clock().advance(10_000_000);
    }
    foreground.depth(8, 0, true);
    let before = foreground.held_back();
    scene.compact();
    foreground.held_back() - before
}

#[test]
fn compaction_writes_are_delayed_by_user_reads() {
    let text = "use_direct_io_for_flush_and_compaction=true";
    assert_eq!(held_back(text, 100_000), 0);
    assert!(held_back(text, 2_000_000) > 0);
}

#[test]
fn options_that_do_nothing_or_harm_are_reported_in_the_log() {
    const IN_VAIN: &str = "use_direct_io_for_compaction_reads=true has no effect";
    const SLOW: &str = "compaction_readahead_size is 0";
    for (text, vain, slow) in [
        ("use_direct_reads=true;use_direct_io_for_compaction_reads=true", true, false),
        ("use_direct_reads=true", false, false),
        ("compaction_readahead_size=0;use_direct_reads=true", false, true),
        ("compaction_readahead_size=0;use_direct_io_for_compaction_reads=true", false, true),
        ("compaction_readahead_size=0", false, false),
        ("use_direct_io_for_compaction_reads=true", false, false),
    ] {
        let scene = try_open(&SimStorage::new(1), text).expect("a new database");
        let log = scene.log();
        assert_eq!(log.contains(IN_VAIN), vain, "{text}: {log}");
        let warned = log.lines().any(|line| line.contains(" WARN ") && line.contains(SLOW));
        assert_eq!(warned, slow, "{text}: {log}");
    }
}

/// A purpose added to `tailwater-io` needs an option, unless it is listed here as having none.
#[test]
fn every_purpose_of_a_database_but_two_has_an_option() {
    let without_option = [Purpose::Manifest, Purpose::Metadata];
    for purpose in Purpose::ALL {
        let name = format!("{}_io_mode", purpose.name());
        let has_option = TailwaterOptions::names().any(|option| option == name);
        let is_expected = !purpose.is_of_message_log() && !without_option.contains(&purpose);
        assert_eq!(has_option, is_expected, "{name}");
        let mut options = DbOptions::default();
        if has_option {
            options.tailwater.set_option(&name, "direct").expect("an I/O mode");
        }
        assert_eq!(options.io_mode(purpose).option, has_option.then_some(&*name));
    }
}
