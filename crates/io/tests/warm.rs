//! Tests of streams that write with direct I/O and leave some spans of the file (the warm spans) in
//! the page cache.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::{AlignedBuffer, BufferPool};
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::SimStorage;
use tailwater_io::stream::{SequentialWriter, Workers, WriterOptions};
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_testkit::filesystem::{say, writes_directly};

const PURPOSE: Purpose = Purpose::CompactionWrite;
const PAGE: u64 = 4096;

/// Returns a direct writer of a new file. The writer has a second, buffered handle for warm spans,
/// the parts of the file to keep in the page cache.
fn writer(storage: &dyn Storage, path: &Path, buffer_bytes: usize) -> SequentialWriter {
    let direct = storage.create(path, Create::New, IoMode::Direct, PURPOSE).unwrap();
    let options = WriterOptions { buffer_bytes, depth: 1, ..WriterOptions::new(PURPOSE) };
    let pool = BufferPool::new(1 << 22);
    let workers = Arc::new(Workers::new("writer", 1).unwrap());
    let mut writer = SequentialWriter::new(direct, options, &pool, Some(&workers)).unwrap();
    writer.warm_through(storage.create(path, Create::Existing, IoMode::Buffered, PURPOSE).unwrap());
    writer
}

fn read(storage: &dyn Storage, path: &Path, length: usize) -> Vec<u8> {
    let file = storage.open(path, IoMode::Buffered, PURPOSE).unwrap();
    assert_eq!(file.length().unwrap(), length as u64);
    let mut bytes = vec![0; length];
    assert_eq!(file.read_full_at(&mut bytes, 0, PURPOSE).unwrap(), length);
    bytes
}

#[test]
fn warm_spans_do_not_change_the_files_bytes() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 200 {
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let storage = SimStorage::new(seed);
        storage.set_alignment(4096 << (seed % 2));
        let path = Path::new("/file");
        let mut writer = writer(&storage, path, random.usize(1..40_000));
        let mut expected = Vec::new();
        for _ in 0..random.usize(1..40) {
            let bytes: Vec<u8> = (0..random.usize(..20_000)).map(|_| random.u8(..)).collect();
            expected.extend_from_slice(&bytes);
            match random.u8(..3) {
                0 => writer.append(&bytes).unwrap(),
                _ => writer.append_warm(&bytes).unwrap(),
            }
            if random.u8(..10) == 0 {
                writer.sync().unwrap();
            }
        }
        writer.sync().unwrap();
        assert_eq!(writer.close().unwrap(), expected.len() as u64);
        assert!(read(&storage, path, expected.len()) == expected);
        // Synced bytes survive a crash, whichever of the two handles wrote them.
        storage.sync_directory(Path::new("/")).unwrap();
        let image = storage.crash_image(seed);
        assert!(read(&image, path, expected.len()) == expected);
    }
}

#[test]
fn only_warm_spans_are_in_the_page_cache() {
    const PIECE: usize = 256 << 10;
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (storage, path) = (PosixStorage::new(), directory.path().join("file"));
    if !writes_directly(directory.path(), "warm spans in the page cache") {
        return;
    }
    let mut writer = writer(&storage, &path, PIECE);
    let bytes = vec![7; PIECE];
    // Write 16 pieces: four cold, four warm, four with a warm first half, and four with one warm
    // page.
    for _ in 0..4 {
        writer.append(&bytes).unwrap();
    }
    for _ in 0..4 {
        writer.append_warm(&bytes).unwrap();
    }
    for _ in 0..4 {
        writer.append_warm(&bytes[..PIECE / 2]).unwrap();
        writer.append(&bytes[PIECE / 2..]).unwrap();
    }
    for _ in 0..4 {
        writer.append_warm(&bytes[..PAGE as usize]).unwrap();
        writer.append(&bytes[PAGE as usize..]).unwrap();
    }
    writer.sync().unwrap();
    writer.close().unwrap();
    assert!(read_direct(&storage, &path) == vec![7; 16 * PIECE]);
    let file = storage.open(&path, IoMode::Direct, PURPOSE).unwrap();
    let pages = |piece: usize, count: usize| {
        file.resident_pages((piece * PIECE) as u64, (count * PIECE) as u64)
    };
    let Some(cold) = pages(0, 4) else {
        return say("LEFT OUT: warm spans: the kernel does not report what is in the page cache");
    };
    let piece_pages = PIECE as u64 / PAGE;
    assert_eq!(cold, 0);
    assert_eq!(pages(4, 4), Some(4 * piece_pages));
    assert_eq!(pages(8, 4), Some(2 * piece_pages));
    assert_eq!(pages(12, 4), Some(4));
}

fn read_direct(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, IoMode::Direct, PURPOSE).unwrap();
    let length = file.length().unwrap() as usize;
    let mut buffer = AlignedBuffer::with_capacity(length);
    buffer.set_length(length);
    assert_eq!(file.read_full_at(&mut buffer, 0, PURPOSE).unwrap(), length);
    buffer.to_vec()
}
