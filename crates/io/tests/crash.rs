//! Checks what the simulated disk keeps and what it may lose in a crash.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SECTOR, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage, WriteFile};

const MODE: IoMode = IoMode::Buffered;
const PURPOSE: Purpose = Purpose::Wal;
const ROOT: &str = "/";

fn create(storage: &SimStorage, path: &str) -> Box<dyn WriteFile> {
    storage.create(Path::new(path), Create::Truncate, MODE, PURPOSE).unwrap()
}

fn write_and_sync(storage: &SimStorage, path: &str, bytes: &[u8]) {
    let mut file = create(storage, path);
    file.write_all_at(bytes, 0, PURPOSE).unwrap();
    file.sync_data(PURPOSE).unwrap();
}

fn sync_directory(storage: &SimStorage, path: &str) {
    storage.sync_directory(Path::new(path)).unwrap();
}

fn read(storage: &SimStorage, path: &str) -> Option<Vec<u8>> {
    let file = storage.open(Path::new(path), MODE, PURPOSE).ok()?;
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read_full_at(&mut bytes, 0, PURPOSE).unwrap(), bytes.len());
    Some(bytes)
}

/// Returns every file on the disk with its content, by path.
fn dump(storage: &SimStorage) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in storage.list(Path::new(&format!("{directory}/"))).unwrap() {
            let path = format!("{directory}/{}", entry.name);
            if entry.is_directory {
                directories.push(path)
            } else {
                _ = files.insert(path.clone(), read(storage, &path).unwrap())
            }
        }
    }
    files
}

/// Returns the different contents that one file has in many crash images taken at this point. If
/// the file does not exist in an image, the set contains `None`.
fn outcomes(storage: &SimStorage, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..300).map(|seed| read(&storage.crash_image(seed), path)).collect()
}

#[test]
fn a_synced_file_with_a_synced_name_survives() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", b"durable");
    sync_directory(&storage, ROOT);
    let mut file = storage.create(Path::new("/a"), Create::Existing, MODE, PURPOSE).unwrap();
    file.write_all_at(b", and not", 7, PURPOSE).unwrap();
    for survivor in outcomes(&storage, "/a") {
        assert!(survivor.unwrap().starts_with(b"durable"));
    }
    assert!(outcomes(&storage, "/a").len() > 1, "unsynced bytes must be lost sometimes");
}

#[test]
fn a_durable_write_persists_only_its_own_bytes() {
    let storage = SimStorage::new(1);
    let sector = SECTOR as usize;
    write_and_sync(&storage, "/a", &vec![b'0'; 6 * sector]);
    sync_directory(&storage, ROOT);
    let mut file = storage.create(Path::new("/a"), Create::Existing, MODE, PURPOSE).unwrap();
    file.write_all_at(&vec![b'1'; 4 * sector], SECTOR, PURPOSE).unwrap();
    file.write_durably_at(&vec![b'2'; 2 * sector], 2 * SECTOR, PURPOSE).unwrap();
    let mut kept = BTreeSet::new();
    for survivor in outcomes(&storage, "/a") {
        let bytes = survivor.unwrap();
        assert_eq!(bytes[2 * sector..4 * sector], vec![b'2'; 2 * sector]);
        kept.insert((bytes[sector], bytes[4 * sector]));
    }
    let all = [(b'0', b'0'), (b'0', b'1'), (b'1', b'0'), (b'1', b'1')];
    assert_eq!(kept, BTreeSet::from(all), "either version of the older write may be kept");
}

#[test]
fn a_durable_write_persists_the_length_and_may_fail_partway() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", b"");
    sync_directory(&storage, ROOT);
    let mut file = storage.create(Path::new("/a"), Create::Existing, MODE, PURPOSE).unwrap();
    file.truncate(100).unwrap();
    file.write_durably_at(b"end", 97, PURPOSE).unwrap();
    let expected = [&[0; 97][..], b"end"].concat();
    assert_eq!(outcomes(&storage, "/a"), BTreeSet::from([Some(expected)]));
    storage.set_faults(FaultPlan::at(0, Fault::InputOutput));
    file.write_durably_at(&[b'x'; 4 * SECTOR as usize], 100, PURPOSE).unwrap_err();
    assert!(outcomes(&storage, "/a").len() > 1, "a failed write may have any effect");
}

#[test]
fn a_file_sync_does_not_make_the_name_durable() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", b"bytes");
    assert_eq!(outcomes(&storage, "/a"), BTreeSet::from([None, Some(b"bytes".to_vec())]));
}

#[test]
fn a_directory_sync_does_not_make_the_bytes_durable() {
    let storage = SimStorage::new(1);
    create(&storage, "/a").write_all_at(b"bytes", 0, PURPOSE).unwrap();
    sync_directory(&storage, ROOT);
    let outcomes = outcomes(&storage, "/a");
    assert!(outcomes.contains(&Some(Vec::new())) && outcomes.contains(&Some(b"bytes".to_vec())));
    assert!(!outcomes.contains(&None));
}

#[test]
fn a_directory_needs_the_sync_of_its_parent() {
    let storage = SimStorage::new(1);
    storage.create_directory(Path::new("/d")).unwrap();
    write_and_sync(&storage, "/d/a", b"bytes");
    sync_directory(&storage, "/d");
    assert_eq!(outcomes(&storage, "/d/a"), BTreeSet::from([None, Some(b"bytes".to_vec())]));
    sync_directory(&storage, ROOT);
    assert_eq!(outcomes(&storage, "/d/a"), BTreeSet::from([Some(b"bytes".to_vec())]));
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new_one() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/CURRENT", b"old");
    sync_directory(&storage, ROOT);
    storage.start_recording();
    write_and_sync(&storage, "/CURRENT.tmp", b"new");
    storage.rename(Path::new("/CURRENT.tmp"), Path::new("/CURRENT")).unwrap();
    let renamed = storage.call_count();
    sync_directory(&storage, ROOT);
    let mut replay = storage.replay();
    let mut seen = BTreeSet::new();
    for call in 0..=storage.call_count() {
        replay.advance_to(call);
        for seed in 0..50 {
            let image = replay.crash_image(seed);
            let current = read(&image, "/CURRENT").unwrap();
            assert!(current == b"old" || current == b"new", "call {call}, seed {seed}");
            // The rename is atomic: if the new content is at the new name, the old name is gone.
            assert!(current == b"old" || read(&image, "/CURRENT.tmp").is_none());
            assert!(call <= renamed || current == b"new", "the directory was synced");
            seen.insert((call == renamed, current));
        }
    }
    assert!(seen.contains(&(true, b"old".to_vec())) && seen.contains(&(true, b"new".to_vec())));
}

#[test]
fn a_rename_of_an_unsynced_file_may_leave_it_empty() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/CURRENT", b"old");
    sync_directory(&storage, ROOT);
    create(&storage, "/CURRENT.tmp").write_all_at(b"new", 0, PURPOSE).unwrap();
    storage.rename(Path::new("/CURRENT.tmp"), Path::new("/CURRENT")).unwrap();
    sync_directory(&storage, ROOT);
    assert!(outcomes(&storage, "/CURRENT").contains(&Some(Vec::new())));
}

#[test]
fn a_rename_between_directories_is_one_step() {
    let storage = SimStorage::new(1);
    for directory in ["/from", "/to"] {
        storage.create_directory(Path::new(directory)).unwrap();
    }
    write_and_sync(&storage, "/from/a", b"bytes");
    sync_directory(&storage, "/from");
    sync_directory(&storage, ROOT);
    storage.rename(Path::new("/from/a"), Path::new("/to/b")).unwrap();
    for seed in 0..100 {
        let image = storage.crash_image(seed);
        let there = [read(&image, "/from/a"), read(&image, "/to/b")];
        assert_eq!(there.iter().flatten().count(), 1, "seed {seed}: {there:?}");
    }
    sync_directory(&storage, "/to");
    for seed in 0..100 {
        assert!(read(&storage.crash_image(seed), "/from/a").is_none());
    }
}

#[test]
fn a_file_renamed_twice_has_one_name() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", b"bytes");
    sync_directory(&storage, ROOT);
    storage.rename(Path::new("/a"), Path::new("/b")).unwrap();
    storage.rename(Path::new("/b"), Path::new("/c")).unwrap();
    let names: BTreeSet<Vec<String>> =
        (0..300).map(|seed| dump(&storage.crash_image(seed)).into_keys().collect()).collect();
    assert_eq!(names, ["/a", "/b", "/c"].map(|name| vec![name.to_owned()]).into());
}

#[test]
fn an_open_file_without_a_name_stays_until_it_is_closed() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", b"still here");
    let file = storage.open(Path::new("/a"), MODE, PURPOSE).unwrap();
    storage.remove(Path::new("/a")).unwrap();
    // Make enough durable changes of names that the storage sweeps unreachable files. The open file
    // must survive the sweep.
    for _ in 0..200 {
        create(&storage, "/b");
        storage.remove(Path::new("/b")).unwrap();
        sync_directory(&storage, ROOT);
    }
    let mut buffer = [0; 10];
    assert_eq!(file.read_full_at(&mut buffer, 0, PURPOSE).unwrap(), 10);
    assert_eq!(&buffer, b"still here");
}

#[test]
fn a_directory_sync_persists_earlier_changes_that_its_names_depend_on() {
    let storage = SimStorage::new(1);
    storage.create_directory(Path::new("/d")).unwrap();
    sync_directory(&storage, ROOT);
    // Create the file in the root, which is not synced after this, and move it to `/d`.
    write_and_sync(&storage, "/a", b"bytes");
    storage.rename(Path::new("/a"), Path::new("/d/a")).unwrap();
    create(&storage, "/other");
    sync_directory(&storage, "/d");
    assert_eq!(outcomes(&storage, "/d/a"), BTreeSet::from([Some(b"bytes".to_vec())]));
    assert_eq!(outcomes(&storage, "/a"), BTreeSet::from([None]), "the old name stays gone");
    assert_eq!(outcomes(&storage, "/other"), BTreeSet::from([None, Some(Vec::new())]));
}

#[test]
fn removed_files_come_back_until_the_directory_is_synced() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", b"first");
    sync_directory(&storage, ROOT);
    storage.remove(Path::new("/a")).unwrap();
    // The storage sweeps unreachable files after a number of changes to directory entries. Make
    // enough other changes to cause such a sweep.
    for _ in 0..200 {
        create(&storage, "/b");
        storage.remove(Path::new("/b")).unwrap();
    }
    assert_eq!(outcomes(&storage, "/a"), BTreeSet::from([None, Some(b"first".to_vec())]));
    write_and_sync(&storage, "/a", b"second");
    let three = BTreeSet::from([None, Some(b"first".to_vec()), Some(b"second".to_vec())]);
    assert_eq!(outcomes(&storage, "/a"), three);
    sync_directory(&storage, ROOT);
    assert_eq!(outcomes(&storage, "/a"), BTreeSet::from([Some(b"second".to_vec())]));
}

#[test]
fn unsynced_sectors_arrive_each_on_its_own() {
    let storage = SimStorage::new(1);
    write_and_sync(&storage, "/a", &[1; 4 * SECTOR as usize]);
    sync_directory(&storage, ROOT);
    let mut file = storage.create(Path::new("/a"), Create::Existing, MODE, PURPOSE).unwrap();
    file.write_all_at(&[2; 4 * SECTOR as usize], 0, PURPOSE).unwrap();
    file.write_all_at(&[3; SECTOR as usize], SECTOR, PURPOSE).unwrap();
    let mut seen = BTreeSet::new();
    for survivor in outcomes(&storage, "/a") {
        let bytes = survivor.unwrap();
        let sectors: Vec<u8> = bytes.chunks(SECTOR as usize).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(SECTOR as usize).all(|sector| sector.iter().all(|&b| b == sector[0])));
        seen.insert(sectors);
    }
    // Every combination of sector versions occurs: three of the sectors were written once since the
    // sync, so they have two possible versions, and one was written twice, so it has three.
    assert_eq!(seen.len(), 2 * 3 * 2 * 2, "{seen:?}");
}

#[test]
fn a_crash_may_leave_intermediate_lengths() {
    let storage = SimStorage::new(1);
    let mut file = create(&storage, "/a");
    sync_directory(&storage, ROOT);
    file.write_all_at(&[1; 700], 0, PURPOSE).unwrap();
    file.write_all_at(&[2; 2000], 700, PURPOSE).unwrap();
    let outcomes = outcomes(&storage, "/a");
    let lengths: BTreeSet<usize> = outcomes.iter().flatten().map(Vec::len).collect();
    for length in [0, 512, 700, 1024, 2560, 2700] {
        assert!(lengths.contains(&length), "{length} of {lengths:?}");
    }
    let holes = outcomes.iter().flatten().any(|bytes| bytes.len() == 2700 && bytes[1100] == 0);
    assert!(holes, "a sector inside the length may not have arrived");
}

/// Makes random writes, truncations and syncs on one file, and checks crash images. Each sector
/// must have a content that it had at some point since the last sync, cut off at the file's length,
/// and the length must be a possible one.
#[test]
fn every_sector_has_some_state_since_the_last_sync() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let storage = SimStorage::new(seed);
        let mut file = create(&storage, "/a");
        sync_directory(&storage, ROOT);
        let mut moments = vec![Vec::new()];
        for step in 0..random.u8(1..20) {
            match random.u8(..10) {
                0 => {
                    file.sync_data(PURPOSE).unwrap();
                    moments.drain(..moments.len() - 1);
                }
                1 | 2 => file.truncate(random.u64(..4000)).unwrap(),
                _ => {
                    let bytes = vec![step + 1; random.usize(1..1500)];
                    file.write_all_at(&bytes, random.u64(..3000), PURPOSE).unwrap();
                }
            }
            moments.push(read(&storage, "/a").unwrap());
        }
        let lengths = moments.iter().map(Vec::len);
        let (shortest, longest) = (lengths.clone().min().unwrap(), lengths.max().unwrap());
        for crash in 0..20 {
            let bytes = read(&storage.crash_image(crash), "/a").unwrap();
            assert!((shortest..=longest).contains(&bytes.len()), "seed {seed}, crash {crash}");
            for start in (0..bytes.len()).step_by(SECTOR as usize) {
                let end = bytes.len().min(start + SECTOR as usize);
                let same = |moment: &Vec<u8>| {
                    (start..end).all(|at| moment.get(at).copied().unwrap_or(0) == bytes[at])
                };
                assert!(
                    moments.iter().any(same),
                    "seed {seed}, crash {crash}: {start} of {} never had these bytes",
                    bytes.len()
                );
            }
        }
    }
}

#[test]
fn a_later_sync_does_not_persist_what_a_failed_one_lost() {
    let mut lost = 0;
    for seed in 0..100 {
        let storage = SimStorage::new(seed);
        let mut file = create(&storage, "/a");
        sync_directory(&storage, ROOT);
        file.write_all_at(b"precious", 0, PURPOSE).unwrap();
        storage.set_faults(
            FaultPlan::none().with(FaultRule::new(Fault::InputOutput).operation(Operation::Sync)),
        );
        let error = file.sync_data(PURPOSE).unwrap_err();
        assert_eq!(error.operation, Operation::Sync);
        file.sync_data(PURPOSE).unwrap();
        // Bytes whose sync failed can still be read by the process, although the disk may have lost
        // them.
        assert_eq!(read(&storage, "/a").unwrap(), b"precious");
        let images: BTreeSet<_> = outcomes(&storage, "/a");
        assert_eq!(images.len(), 1, "all of it is durable, or lost for good");
        lost += u32::from(images != BTreeSet::from([Some(b"precious".to_vec())]));
    }
    assert!((20..80).contains(&lost), "{lost} of 100");
}

#[test]
fn a_crash_of_the_process_loses_nothing() {
    let storage = SimStorage::new(1);
    create(&storage, "/a").write_all_at(b"written", 0, PURPOSE).unwrap();
    drop(storage.lock(Path::new("/LOCK")).unwrap());
    let before = dump(&storage);
    let _lock = storage.lock(Path::new("/LOCK")).unwrap();
    let image = storage.process_crash_image(2);
    assert_eq!(dump(&image), before);
    // The crash of the process released the lock.
    drop(image.lock(Path::new("/LOCK")).unwrap());
    // The name of `/a` was not synced, so a power cut after the crash of the process can still lose
    // it.
    assert!(outcomes(&image, "/a").contains(&None));
    // The image is a separate disk: removing a file there does not affect the original.
    image.remove(Path::new("/a")).unwrap();
    assert_eq!(read(&storage, "/a").unwrap(), b"written");
}

/// Makes `count` random calls on a few files and directories.
fn random_calls(storage: &SimStorage, random: &mut fastrand::Rng, count: u32) {
    let names = ["/a", "/b", "/d/a", "/d/b", "/e/a"];
    let mut files: Vec<Box<dyn WriteFile>> = Vec::new();
    for _ in 0..count {
        let path = Path::new(random.choice(names).unwrap());
        // Many of these calls fail, for example because a file does not exist. That does not
        // matter.
        match random.u8(..10) {
            0 | 1 => files.extend(storage.create(path, Create::Truncate, MODE, PURPOSE)),
            2..=4 if !files.is_empty() => {
                let index = random.usize(..files.len());
                let bytes = vec![random.u8(1..); random.usize(1..2000)];
                let _ = files[index].write_at(&bytes, random.u64(..2000), PURPOSE);
            }
            5 if !files.is_empty() => {
                let index = random.usize(..files.len());
                let _ = files[index].sync_data(PURPOSE);
            }
            6 => _ = storage.rename(path, Path::new(random.choice(names).unwrap())),
            7 => _ = storage.remove(path),
            8 => _ = storage.link(path, Path::new(random.choice(names).unwrap())),
            _ => {
                let directory = Path::new(random.choice(["/", "/d", "/e"]).unwrap());
                let _ = if random.bool() {
                    storage.create_directory(directory)
                } else {
                    storage.sync_directory(directory)
                };
            }
        }
    }
}

#[test]
fn images_are_decided_by_the_seed() {
    let first = fastrand::u64(..1 << 40);
    let mut decided = 0;
    for seed in first..first + 50 {
        let run = || {
            let storage = SimStorage::new(seed);
            random_calls(&storage, &mut fastrand::Rng::with_seed(seed), 60);
            storage
        };
        let (one, other) = (run(), run());
        let images: BTreeSet<_> = (0..20)
            .map(|crash| {
                let image = dump(&one.crash_image(crash));
                assert_eq!(image, dump(&other.crash_image(crash)), "seed {seed}, crash {crash}");
                image
            })
            .collect();
        decided += u32::from(images.len() > 1);
    }
    // If everything is synced, or if nothing unsynced can survive, all crashes of a run leave the
    // same disk. In more than half of the runs, different crashes must leave different disks.
    assert!(decided > 25, "seeds from {first} decide {decided} of 50");
}

#[test]
fn a_replay_passes_through_the_same_disks() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let storage = SimStorage::new(seed);
        random_calls(&storage, &mut random, 20);
        storage.start_recording();
        let mut live = Vec::new();
        for _ in 0..30 {
            random_calls(&storage, &mut random, 5);
            // Examining an image makes calls on the image only, so they do not change the call
            // count of `storage`.
            let crashed = dump(&storage.crash_image(7));
            live.push((storage.call_count(), crashed, dump(&storage.process_crash_image(7))));
        }
        let mut replay = storage.replay();
        for (call, crashed, killed) in live {
            replay.advance_to(call);
            assert_eq!(dump(&replay.crash_image(7)), crashed, "seed {seed}, call {call}");
            assert_eq!(dump(&replay.process_crash_image(7)), killed, "seed {seed}, call {call}");
            assert_eq!(dump(&storage.crash_image_at(call, 7)), crashed);
        }
    }
}

#[test]
fn an_image_loses_nothing_in_a_second_crash() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 50 {
        let storage = SimStorage::new(seed);
        random_calls(&storage, &mut fastrand::Rng::with_seed(seed), 60);
        let image = storage.crash_image(seed);
        assert_eq!(dump(&image.crash_image(1)), dump(&image), "seed {seed}");
    }
}
