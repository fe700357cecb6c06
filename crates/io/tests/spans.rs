//! Tests of `read_span`: spans at any offset, in every I/O mode, on the real and the simulated
//! disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::io::ErrorKind;
use std::path::Path;

use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};
use tailwater_testkit::filesystem::{say, writes_directly};

const READ: Purpose = Purpose::UserRead;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 251 + index) as u8).collect()
}

fn put(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, READ).unwrap();
    file.write_all_at(bytes, 0, READ).unwrap();
}

/// Reads random spans with one reused buffer, in each mode that the filesystem supports.
fn read_spans(storage: &dyn Storage, directory: &Path, random: &mut fastrand::Rng) {
    let path = directory.join("file");
    let bytes = pattern(random.usize(..150_000));
    put(storage, &path, &bytes);
    let mut buffer = AlignedBuffer::with_capacity(1);
    for mode in IoMode::ALL {
        let file = match storage.open(&path, mode, READ) {
            Ok(file) => file,
            Err(error) if error.is_unsupported() => {
                say(&format!("LEFT OUT: spans: {mode:?}: {error}"));
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        for _ in 0..30 {
            let offset = random.usize(..160_000);
            let limit = *random.choice(&[2, 5000, 70_000]).unwrap();
            let length = random.usize(..limit);
            let found = match file.read_span(&mut buffer, offset as u64, length, READ) {
                Ok(found) => found,
                // Uncached reads need Linux 6.14 and a filesystem that supports them.
                Err(error) if error.is_unsupported() && mode == IoMode::Uncached => {
                    say(&format!("LEFT OUT: spans: {mode:?}: {error}"));
                    break;
                }
                Err(error) => panic!("{error}"),
            };
            let end = (offset + length).min(bytes.len());
            assert!(found == &bytes[offset.min(end)..end], "{mode:?} {offset} {length}");
        }
    }
}

#[test]
fn any_span_on_the_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    // Where direct I/O is ignored, the bytes are compared all the same.
    writes_directly(directory.path(), "direct spans on the real disk");
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 10 {
        println!("seed {seed}");
        read_spans(&PosixStorage::new(), directory.path(), &mut fastrand::Rng::with_seed(seed));
    }
}

#[test]
fn any_span_with_short_transfers_and_larger_alignments() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 60 {
        println!("seed {seed}");
        let storage = SimStorage::new(seed);
        storage.set_alignment(4096 << (seed % 5));
        if seed % 2 == 0 {
            let short = FaultRule::new(Fault::Short).operation(Operation::Read).from(0);
            storage.set_faults(FaultPlan::none().with(short));
        }
        read_spans(&storage, Path::new("/"), &mut fastrand::Rng::with_seed(seed));
    }
}

#[test]
fn a_direct_span_takes_one_call_into_its_own_buffer() {
    let path = Path::new("/file");
    let storage = SimStorage::new(1);
    storage.set_alignment(16_384);
    put(&storage, path, &pattern(100_000));
    let file = storage.open(path, IoMode::Direct, READ).unwrap();
    assert_eq!(file.alignment(), 16_384);
    let mut buffer = AlignedBuffer::with_capacity(4 * 16_384);
    let memory = buffer.as_ptr();
    storage.start_recording();
    let found = file.read_span(&mut buffer, 16_000, 20_000, READ).unwrap();
    assert_eq!(found.as_ptr(), memory.wrapping_add(16_000));
    assert_eq!(storage.calls().len(), 1);
    assert_eq!(storage.statistics().snapshot(READ).read_bytes, 3 * 16_384);
    // Reading an empty span makes no read call.
    assert!(file.read_span(&mut buffer, 40_000, 0, READ).unwrap().is_empty());
    assert_eq!(storage.calls().len(), 1);
}

#[test]
fn a_transfer_below_the_devices_alignment_is_refused() {
    let path = Path::new("/file");
    let storage = SimStorage::new(1);
    storage.set_alignment(16_384);
    put(&storage, path, &pattern(100_000));
    let file = storage.open(path, IoMode::Direct, READ).unwrap();
    let mut buffer = AlignedBuffer::with_capacity(16_384);
    buffer.set_length(16_384);
    assert_eq!(file.read_at(&mut buffer, 16_384, READ).unwrap(), 16_384);
    for (offset, length) in [(4096, 16_384), (0, 4096)] {
        let error = file.read_at(&mut buffer[..length], offset, READ).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_failed_span_reports_its_offset() {
    let path = Path::new("/file");
    let storage = SimStorage::new(1);
    put(&storage, path, &pattern(100_000));
    let file = storage.open(path, IoMode::Direct, READ).unwrap();
    let mut buffer = AlignedBuffer::with_capacity(1);
    storage.set_faults(FaultPlan::at(0, Fault::InputOutput));
    let error = file.read_span(&mut buffer, 9000, 100, READ).unwrap_err();
    assert_eq!((error.operation, error.offset), (Operation::Read, Some(8192)));
    let error = file.read_span(&mut buffer, u64::MAX - 5, 100, READ).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::InvalidInput);
    assert_eq!(file.read_span(&mut buffer, 9000, 100, READ).unwrap().len(), 100);
}
