//! Warm handover: if users read blocks of a compaction's inputs, the compaction puts the matching
//! blocks of its outputs into the page cache. The tests ask the kernel how much of the outputs is
//! in the page cache.
#![cfg(not(loom))]

use std::path::Path;

use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, OpenOptions, ReadOptions, Statistics, WriteOptions,
};
use tailwater_io::posix::PosixStorage;
use tailwater_io::{IoMode, Purpose, Storage};
use tailwater_testkit::filesystem::{Mounted, say};

/// Options with which reads of users go through the page cache, and compactions bypass it with
/// direct I/O.
const OPTIONS: &str = "create_if_missing=true;compression=kNoCompression;\
    disable_auto_compactions=true;compaction_read_io_mode=direct;compaction_write_io_mode=direct;\
    block_based_table_factory={block_cache=64k}";
const KEYS: u64 = 8000;
/// Number of hot keys, which are the keys in `0..HOT`. The tests read only these.
const HOT: u64 = 2000;
const VALUE: usize = 1000;
const PAGE: u64 = 4096;

struct Scene {
    db: Db,
    family: ColumnFamily,
    statistics: std::sync::Arc<Statistics>,
}

impl Scene {
    fn new(directory: &Path, text: &str) -> Self {
        let mut options = OpenOptions::default();
        options.set_from_string(&format!("{OPTIONS};{text}")).expect("options");
        let statistics = std::sync::Arc::new(Statistics::new());
        options.set_statistics(std::sync::Arc::clone(&statistics));
        let db = Db::open(directory, &options).expect("a database");
        let family = db.cf_handle("default").expect("the default column family");
        Self { db, family, statistics }
    }

    /// Puts keys, flushes them, and compacts the whole key range into the last level.
    fn put(&self, keys: impl Iterator<Item = u64>) {
        self.put_in_level_0(keys);
        let all = CompactRangeOptions::default();
        self.db.compact_range_cf_opt(&self.family, None, None, &all).expect("a compaction");
    }

    fn put_in_level_0(&self, keys: impl Iterator<Item = u64>) {
        self.put_in_memory(keys);
        self.db.flush_cf(&self.family).expect("a flush");
    }

    fn put_in_memory(&self, keys: impl Iterator<Item = u64>) {
        for key in keys {
            let value = vec![key as u8; VALUE];
            let key = format!("{key:08}");
            self.db
                .put_cf_opt(&self.family, key.as_bytes(), &value, &WriteOptions::default())
                .expect("a put");
        }
    }

    fn read(&self, keys: impl Iterator<Item = u64>) {
        for key in keys {
            let found = self.db.get_cf_opt(
                &self.family,
                format!("{key:08}").as_bytes(),
                &ReadOptions::default(),
            );
            assert_eq!(found.expect("a get").map(|value| value.len()), Some(VALUE));
        }
    }

    fn ticker(&self, name: &str) -> u64 {
        self.statistics.ticker(name).expect("a ticker")
    }

    /// Returns how many pages of all live tables are in the page cache, or `None` if the kernel
    /// does not report that.
    fn resident(&self) -> Option<u64> {
        let pages = |path: &Path| {
            let file = PosixStorage::new().open(path, IoMode::Buffered, Purpose::Metadata);
            file.expect("a table").resident_pages(0, 0)
        };
        self.db.live_files().iter().map(|file| pages(&file.path)).sum()
    }
}

/// Reads the hot keys, then runs a compaction that rewrites their blocks, and counts the pages of
/// the new tables in the page cache. Returns this count with the option `warm_handover` and without
/// it, or `None` if the kernel does not report it.
fn pages_after_a_compaction(directory: &Path, text: &str) -> Option<[u64; 2]> {
    let mut pages = [0; 2];
    for (pages, is_on) in pages.iter_mut().zip([true, false]) {
        let place = directory.join(is_on.to_string());
        let scene = Scene::new(&place, &format!("warm_handover={is_on};{text}"));
        scene.put(0..KEYS);
        scene.read(0..HOT);
        // These keys are spread over the last level, so the compaction rewrites all tables there.
        scene.put((0..KEYS).filter(|key| *key >= HOT && key % 7 == 0));
        *pages = scene.resident()?;
        let handed_over = scene.ticker("tailwater.handover.blocks");
        assert_eq!(handed_over > 0, is_on, "{handed_over}");
        scene.read(0..HOT);
        let read = scene.ticker("tailwater.handover.blocks.read");
        // Reads of the hot keys must use at least half of the blocks that were handed over. The
        // others may contain keys next to the hot keys.
        assert!(read <= handed_over && read >= handed_over / 2, "{read} of {handed_over}");
    }
    Some(pages)
}

#[test]
fn warm_blocks_are_in_the_page_cache_after_a_compaction() {
    let mut places = Vec::new();
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    places.push(("here", here.path().to_owned()));
    let disks: Vec<_> = [("ext4", 256 << 20), ("xfs", 512 << 20)]
        .into_iter()
        .filter_map(|(kind, bytes)| Some((kind, Mounted::new(kind, bytes, "warm handover")?)))
        .collect();
    places.extend(disks.iter().map(|(kind, disk)| (*kind, disk.path())));
    for (place, directory) in places {
        let Some([with, without]) = pages_after_a_compaction(&directory, "") else {
            say("LEFT OUT: warm handover: the kernel does not report what is in the page cache");
            return;
        };
        let hot = HOT * VALUE as u64 / PAGE;
        println!("{place}: {with} pages with handing over, {without} without, {hot} are hot");
        assert!(with >= hot && with < 2 * hot, "{place}: {with} pages, {hot} are hot");
        assert!(without < hot / 4, "{place}: {without} pages, {hot} are hot");
    }
}

#[test]
fn outputs_that_replace_warm_tables_are_opened_before_reads() {
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let scene = Scene::new(here.path(), "max_open_files=20;target_file_size_base=64k");
    let few = KEYS - 200..KEYS;
    scene.put(0..KEYS);
    scene.read(few.clone());
    // Rewrites every table. There are far more tables than `max_open_files` permits to keep open.
    scene.put((0..KEYS).filter(|key| key % 7 == 0));
    let tables = scene.db.live_files().len();
    assert!(tables > 60, "{tables} tables");
    let opened = scene.ticker("rocksdb.no.file.opens");
    scene.read(few);
    assert_eq!(scene.ticker("rocksdb.no.file.opens"), opened, "a read had to open a table");
}

#[test]
fn no_handover_happens_near_a_stall() {
    for (slowdown, is_near) in [(9, true), (100, false)] {
        let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let text = format!(
            "disable_auto_compactions=false;level0_file_num_compaction_trigger=6;\
             level0_slowdown_writes_trigger={slowdown};level0_stop_writes_trigger=200"
        );
        let scene = Scene::new(here.path(), &text);
        scene.put(0..KEYS);
        scene.read(0..HOT);
        let pause = scene.db.pause_compactions().expect("a pause");
        for round in 0..8 {
            scene.put_in_level_0((0..KEYS).filter(|key| key % 9 == round));
        }
        drop(pause);
        while scene.db.needs_compaction_cf(&scene.family).expect("its column family")
            || scene.db.running_compactions() > 0
        {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let handed_over = scene.ticker("tailwater.handover.blocks");
        assert_eq!(handed_over == 0, is_near, "{slowdown}: {handed_over}");
    }
}

/// Regression test: reads of the first memtable of a column family were not tracked, so the flush
/// of that memtable put none of its blocks into the page cache.
#[test]
fn the_first_flush_of_a_column_family_hands_over_records_that_users_read() {
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let text = "use_direct_reads=true;flush_write_io_mode=direct;\
                block_based_table_factory={block_cache=16m}";
    let scene = Scene::new(here.path(), text);
    let family = scene.db.create_cf("new", &Default::default()).expect("a column family");
    let statistics = std::sync::Arc::clone(&scene.statistics);
    for scene in [&scene, &Scene { db: scene.db.clone(), family, statistics }] {
        scene.put_in_memory(0..200);
        scene.read(0..200);
        let before = scene.ticker("tailwater.handover.blocks");
        scene.db.flush_cf(&scene.family).expect("a flush");
        let handed_over = scene.ticker("tailwater.handover.blocks") - before;
        assert!(handed_over > 0, "{}", scene.family.name());
    }
}

/// Keys that users read in tables, overwrite, and do not read again before the flush: their next
/// read needs the new version. Nobody reads the other keys.
#[test]
fn a_flush_hands_over_new_versions_of_keys_that_users_read_in_tables() {
    let here = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let text = "use_direct_reads=true;flush_write_io_mode=direct;\
                block_based_table_factory={block_cache=16m}";
    let scene = Scene::new(here.path(), text);
    scene.put(0..KEYS);
    scene.read(0..HOT);
    let misses = |keys: std::ops::Range<u64>| {
        let before = scene.ticker("rocksdb.block.cache.data.miss");
        scene.read(keys);
        scene.ticker("rocksdb.block.cache.data.miss") - before
    };
    assert_eq!(misses(0..HOT), 0, "the hot keys are in the cache");
    let before = scene.ticker("tailwater.handover.blocks");
    scene.put_in_level_0(0..KEYS);
    let handed_over = scene.ticker("tailwater.handover.blocks") - before;
    // A block has four values. A few keys are taken for hot ones by mistake.
    assert!((HOT / 5..HOT / 2).contains(&handed_over), "{handed_over}");
    assert_eq!(misses(0..HOT), 0, "the new versions are in the cache");
    assert!(misses(HOT..KEYS) > (KEYS - HOT) / 8, "the other keys are not");
}
