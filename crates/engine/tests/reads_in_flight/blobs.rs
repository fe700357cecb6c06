//! Multi-gets of values in blob files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, OpenOptions, ValueBuffer};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
use tailwater_io::{Operation, Purpose};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::{golden, seed};

use crate::on_disk;
use crate::recorder::Recorder;

/// A golden database with blob files.
struct Scene {
    recorder: Recorder,
    db: Db,
    entries: BTreeMap<String, Vec<Entry>>,
}

impl Scene {
    fn new(name: &str, more: &str, rng: &mut Rng) -> Self {
        let recorder = Recorder::new(on_disk(name, rng));
        let mut options = OpenOptions::with_storage(Arc::new(recorder.clone()));
        options.set_load_when_opened(&format!("enable_blob_files=false;{more}"));
        options.set_inline_background(true);
        let db = Db::open(Path::new("/db"), &options).expect("the database");
        let mut entries = BTreeMap::<String, Vec<Entry>>::new();
        for entry in golden::dump(name) {
            entries.entry(entry.family.clone()).or_default().push(entry);
        }
        Self { recorder, db, entries }
    }

    fn families(&self) -> Vec<(ColumnFamily, &[Entry])> {
        let family = |name: &String| self.db.cf_handle(name).expect("a column family");
        self.entries.iter().map(|(name, entries)| (family(name), &entries[..])).collect()
    }

    fn set_fault(&self, rule: Option<FaultRule>) {
        let rule = rule.map(|it| it.operation(Operation::Read).purpose(Purpose::UserBlobRead));
        self.recorder
            .disk
            .set_faults(rule.map_or(FaultPlan::none(), |rule| FaultPlan::none().with(rule)));
    }
}

/// Gets entries in both forms, and compares the values. Returns the number of failed keys.
fn check(db: &Db, family: &ColumnFamily, entries: &[&Entry]) -> usize {
    let keys: Vec<_> = entries.iter().map(|entry| &entry.key).collect();
    let options = tailwater::ReadOptions::new();
    let (mut copies, mut failed) = (ValueBuffer::new(), 0);
    db.multi_get_into_cf_opt(family, &keys, &options, &mut copies);
    let pinned = db.batched_multi_get_cf_opt(family, &keys, &options);
    for (at, (entry, value)) in entries.iter().zip(pinned).enumerate() {
        match value {
            Ok(value) => assert!(value.as_deref() == Some(&entry.value[..]), "{:?}", entry.key),
            Err(_) => failed += 1,
        }
        match copies.get(at) {
            Ok(value) => assert!(value == Some(&entry.value[..]), "{:?}", entry.key),
            Err(_) => failed += 1,
        }
    }
    failed
}

#[test]
fn the_blobs_of_a_batch_are_those_of_single_gets_whatever_the_reads_do() {
    let mut seed = seed::rng();
    println!("TAILWATER_SEED={}", seed.value());
    let rng = &mut seed.rng;
    let (mut failed, mut in_batches) = (0, 0);
    for name in ["blobs", "small-blobs"] {
        for more in
            ["", "max_bytes_in_flight=4096", "max_bytes_in_flight=0", "use_direct_reads=true"]
        {
            let scene = Scene::new(name, more, rng);
            for _ in 0..10 * seed::rounds() {
                for (family, entries) in scene.families() {
                    let count = *rng.choice(&[1, 2, 30, 100]).unwrap_or(&1);
                    let some: Vec<_> = (0..count).filter_map(|_| rng.choice(entries)).collect();
                    let record = |work: &mut dyn FnMut()| {
                        scene.recorder.record(Purpose::UserBlobRead, work).0
                    };
                    let batches = record(&mut || assert_eq!(check(&scene.db, &family, &some), 0));
                    in_batches += batches.iter().sum::<usize>();
                    scene.set_fault(Some(FaultRule::new(Fault::Short).from(0)));
                    assert_eq!(check(&scene.db, &family, &some), 0, "short reads are completed");
                    let (at, rule) = (rng.u64(..10), FaultRule::new(Fault::InputOutput));
                    scene.set_fault(Some(if rng.bool() { rule.at(at) } else { rule.from(at) }));
                    failed += check(&scene.db, &family, &some);
                    scene.set_fault(None);
                }
            }
        }
    }
    println!("{in_batches} reads in flight together, {failed} values failed");
    assert!(in_batches > 0 && failed > 0);
}

/// Returns the entries whose values are in blob files.
fn in_blob_files<'a>(scene: &Scene, family: &ColumnFamily, entries: &'a [Entry]) -> Vec<&'a Entry> {
    let is_blob = |entry: &&Entry| {
        let (_, reads) = scene.recorder.record(Purpose::UserBlobRead, || {
            assert!(scene.db.get_cf(family, &entry.key).expect("a get").is_some());
        });
        reads > 0
    };
    // The first get of each blob file opens it, and reads its header.
    entries.iter().filter(is_blob).collect()
}

#[test]
fn the_blobs_of_a_batch_are_read_together() {
    let rng = &mut Rng::with_seed(7);
    let scene = Scene::new("blobs", "", rng);
    for (family, entries) in scene.families() {
        let blobs = in_blob_files(&scene, &family, entries);
        assert!(blobs.len() > 64, "{}", blobs.len());
        let record = |entries: &[&Entry]| {
            let keys: Vec<_> = entries.iter().map(|entry| &entry.key).collect();
            let mut copies = ValueBuffer::new();
            let options = tailwater::ReadOptions::new();
            scene.recorder.record(Purpose::UserBlobRead, || {
                scene.db.multi_get_into_cf_opt(&family, &keys, &options, &mut copies);
                assert!((0..keys.len()).all(|at| copies.get(at).is_ok_and(|it| it.is_some())));
            })
        };
        let apart: Vec<_> = blobs.iter().step_by(blobs.len() / 20).take(20).copied().collect();
        let (batches, reads) = record(&apart);
        assert_eq!(batches, [reads as usize], "all are in flight together");
        assert!((10..=20).contains(&reads), "{reads}");
        let (batches, reads) = record(&blobs[..60]);
        assert!(batches.len() <= 1 && reads < 60, "{batches:?}, {reads}: adjacent blobs");
        assert_eq!(record(&blobs[..1]), (vec![], 1));
    }
}
