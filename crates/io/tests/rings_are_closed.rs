//! Rings and threads belong to the storage and to the reads in flight, not to the process: nothing
//! is left behind. A test of its own, because it counts the descriptors of the process.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::in_flight::{ReadsInFlight, Span};
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, IoMode, Purpose, ReadFile, Storage};
use tailwater_testkit::filesystem::say;

const READ: Purpose = Purpose::UserRead;
const LENGTH: u64 = 300_123;
const THREADS: u64 = 4;

fn open_descriptors() -> usize {
    PosixStorage::new().list(Path::new("/proc/self/fd")).unwrap().len()
}

fn file(storage: &PosixStorage, path: &Path) -> Arc<dyn ReadFile> {
    let bytes: Vec<_> = (0..LENGTH).map(|index| (index / 251 + index) as u8).collect();
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, READ).unwrap();
    file.write_all_at(&bytes, 0, READ).unwrap();
    storage.open(path, IoMode::Buffered, READ).unwrap()
}

#[test]
fn nothing_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let before = open_descriptors();
    for _ in 0..3 {
        let storage = PosixStorage::new();
        let file = file(&storage, &directory.path().join("file"));
        let reads = ReadsInFlight::new(1 << 20, true, storage.statistics().foreground());
        std::thread::scope(|scope| {
            for seed in 0..THREADS {
                let (reads, file) = (&reads, &file);
                scope.spawn(move || check(reads, file, seed));
            }
        });
        if storage.uses_io_uring() {
            let rings = open_descriptors() - before - 1;
            assert!((1..=THREADS as usize).contains(&rings), "{rings} rings");
        } else {
            say("LEFT OUT: the number of rings: io_uring is not allowed here");
        }
        assert_eq!(reads.buffers().in_use(), 0);
    }
    assert_eq!(open_descriptors(), before);
}

/// Reads random spans together, while other threads use the same memory, and compares them with
/// single reads.
fn check(reads: &ReadsInFlight, file: &Arc<dyn ReadFile>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut buffer = AlignedBuffer::with_capacity(0);
    for _ in 0..20 {
        let span = |rng: &mut Rng| {
            let (offset, length) = (rng.u64(..LENGTH), rng.usize(..50_000));
            Span { file: Arc::clone(file), offset, length }
        };
        let spans: Vec<_> = (0..40).map(|_| span(&mut rng)).collect();
        reads.read_together(&spans, READ, |at, bytes| {
            let Span { offset, length, .. } = spans[at];
            let single = file.read_span(&mut buffer, offset, length, READ).unwrap();
            assert!(bytes.unwrap() == single, "span {at}");
        });
    }
}
