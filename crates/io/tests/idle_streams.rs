//! Streams that are not read keep no rings, although requests of theirs were in flight. A test of
//! its own, because it counts the descriptors of the process.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tailwater_io::buffer::BufferPool;
use tailwater_io::posix::PosixStorage;
use tailwater_io::stream::{ReaderOptions, RequestPath, SequentialReader};
use tailwater_io::{Create, IoMode, Purpose, ReadFile, Storage};
use tailwater_testkit::filesystem::say;
use tailwater_testkit::seed;

const READ: Purpose = Purpose::UserRead;
const LENGTH: u64 = 1 << 20;
const STREAMS: usize = 100;
/// Number of rings that may be open. A request may still be in flight when the next stream needs a
/// ring, so it is more than one.
const FEW: usize = 8;

fn open_descriptors() -> usize {
    PosixStorage::new().list(Path::new("/proc/self/fd")).unwrap().len()
}

fn contents() -> Vec<u8> {
    (0..LENGTH).map(|index| (index / 251 + index) as u8).collect()
}

fn file(storage: &PosixStorage, path: &Path) -> Arc<dyn ReadFile> {
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, READ).unwrap();
    file.write_all_at(&contents(), 0, READ).unwrap();
    storage.open(path, IoMode::Buffered, READ).unwrap()
}

fn stream(file: &Arc<dyn ReadFile>, pool: &BufferPool) -> SequentialReader {
    let options = ReaderOptions { request_bytes: 8192, depth: 4, first: 4, purpose: READ };
    SequentialReader::new(Arc::clone(file), 0..LENGTH, options, pool, None).unwrap()
}

/// Reads the next bytes of a stream and compares them. Returns whether there were any.
fn step(reader: &mut SequentialReader, contents: &[u8], rng: &mut Rng) -> bool {
    let from = reader.position();
    let bytes = reader.read(from, rng.usize(1..40_000)).unwrap();
    assert!(bytes == &contents[from as usize..][..bytes.len()]);
    !bytes.is_empty()
}

#[test]
fn idle_streams_keep_few_rings_and_go_on() {
    let mut seed = seed::rng();
    println!("TAILWATER_SEED={}", seed.value());
    let rng = &mut seed.rng;
    let storage = PosixStorage::new();
    let directory = tempfile::tempdir().unwrap();
    let file = file(&storage, &directory.path().join("file"));
    if !storage.uses_io_uring() {
        return say("LEFT OUT: rings of idle streams: io_uring is not allowed here");
    }
    let (pool, contents, before) = (BufferPool::new(64 << 20), contents(), open_descriptors());
    let rings = || open_descriptors() - before;
    let mut readers: Vec<_> = (0..STREAMS).map(|_| stream(&file, &pool)).collect();
    for reader in &mut readers {
        assert!(step(reader, &contents, rng));
        assert_eq!(reader.request_path(), RequestPath::Ring);
    }
    assert!((1..=FEW).contains(&rings()), "{} rings of {STREAMS} idle streams", rings());
    // All go on in turn, each from where it stopped.
    while !readers.is_empty() {
        let at = rng.usize(..readers.len());
        if !step(&mut readers[at], &contents, rng) {
            drop(readers.swap_remove(at));
        }
    }
    assert!((1..=FEW).contains(&rings()), "{} rings", rings());
    assert_eq!(pool.in_use(), 0);
    several_threads(&file, &contents, rng);
    drop((storage, file));
    assert!(open_descriptors() < before, "nothing is left behind");
}

/// Several threads read more streams than there are rings, and pass them on to each other.
fn several_threads(file: &Arc<dyn ReadFile>, contents: &[u8], rng: &mut Rng) {
    let pool = BufferPool::new(64 << 20);
    let mut parts: Vec<Vec<_>> =
        (0..4).map(|_| (0..STREAMS / 4).map(|_| stream(file, &pool)).collect()).collect();
    for _ in 0..5 {
        let seeds: Vec<_> = parts.iter().map(|_| rng.u64(..)).collect();
        std::thread::scope(|scope| {
            for (readers, seed) in parts.iter_mut().zip(seeds) {
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed);
                    for _ in 0..200 {
                        let at = rng.usize(..readers.len());
                        step(&mut readers[at], contents, &mut rng);
                    }
                });
            }
        });
        parts.rotate_left(1);
    }
    drop(parts);
    assert_eq!(pool.in_use(), 0);
}
