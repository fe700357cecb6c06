//! Tests of reading several blobs together.

use std::path::Path;

use tailwater_format::blob::{BlobFileFooter, BlobFileHeader, BlobRecordHeader};
use tailwater_format::compress::{Compression, Compressor, CompressorOptions};
use tailwater_io::DescriptorBudget;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode};

use super::*;
use crate::options::DbOptions;

const PURPOSE: Purpose = Purpose::UserBlobRead;
const DIRECTORY: &str = "/db";
const VALUE_BYTES: usize = 100_000;

/// Blob files, and the blob indexes of their values.
struct Scene {
    storage: SimStorage,
    cache: BlobCache,
    blobs: Vec<Blob>,
}

struct Blob {
    key: Vec<u8>,
    value: Vec<u8>,
    index: Vec<u8>,
    stored_bytes: usize,
}

impl Scene {
    /// Writes this number of files with two values each.
    fn new(files: u64, compression: Compression) -> Self {
        let storage = SimStorage::new(1);
        let directory = Path::new(DIRECTORY);
        storage.create_directory(directory).unwrap();
        let modes = Arc::new(IoModes::new(&DbOptions::default()));
        let (shared, open) = (Arc::new(storage.clone()), Arc::new(OpenBlobFiles::new(None)));
        let cache = BlobCache::new(shared, directory.to_owned(), modes, open);
        let mut scene = Self { storage, cache, blobs: Vec::new() };
        for number in 1..=files {
            scene.write(number, compression);
        }
        scene
    }

    fn write(&mut self, file_number: u64, compression: Compression) {
        let mut file = Vec::new();
        BlobFileHeader::new(0, compression).encode(&mut file);
        for part in 0..2_u64 {
            let key = format!("key{file_number:03}{part}").into_bytes();
            let value = vec![(file_number + part) as u8; VALUE_BYTES];
            let mut stored = value.clone();
            if compression != Compression::None {
                let options = CompressorOptions::default();
                let mut compressor = Compressor::new(compression, &options, &[]).unwrap();
                compressor.compress_always(&value, &mut stored).unwrap();
            }
            BlobRecordHeader::new(&key, &stored, 0).encode(&mut file);
            file.extend_from_slice(&key);
            let (offset, size) = (file.len() as u64, stored.len() as u64);
            file.extend_from_slice(&stored);
            let location =
                BlobLocation { file_number, offset, size, compression, expiration: None };
            let mut index = Vec::new();
            BlobIndex::Blob(location).encode(&mut index);
            self.blobs.push(Blob { key, value, index, stored_bytes: stored.len() });
        }
        BlobFileFooter::new(2).encode(&mut file);
        let path = self.cache.path(file_number);
        let mut created =
            self.storage.create(&path, Create::New, IoMode::Buffered, PURPOSE).unwrap();
        created.write_all_at(&file, 0, PURPOSE).unwrap();
    }

    /// Reads the values from this one on together, with so much memory, and compares them. Returns
    /// their number.
    fn read_from(&self, first: usize, memory_bytes: usize) -> usize {
        let in_flight = ReadsInFlight::new(memory_bytes, false, &Arc::default());
        let wanted = self.blobs[first..].iter().map(|blob| (&blob.key[..], &blob.index[..]));
        let values = self.cache.read_together(wanted, &in_flight, PURPOSE);
        let count = values.len();
        for (value, blob) in values.into_iter().zip(&self.blobs[first..]) {
            let value = value.unwrap();
            assert_eq!(value.stored_bytes(), blob.stored_bytes);
            assert!(value.unpack().unwrap() == blob.value);
        }
        count
    }

    /// Reads all values in parts, with so much memory. Returns the sizes of the parts.
    fn parts(&self, memory_bytes: usize) -> Vec<usize> {
        let (mut first, mut parts) = (0, Vec::new());
        while first < self.blobs.len() {
            let count = self.read_from(first, memory_bytes);
            assert!(count > 0);
            parts.push(count);
            first += count;
        }
        parts
    }
}

#[test]
fn values_stay_compressed_until_they_are_taken() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let scene = Scene::new(5, compression);
        let stored: usize = scene.blobs.iter().map(|blob| blob.stored_bytes).sum();
        assert!(compression == Compression::None || stored < VALUE_BYTES);
        assert_eq!(scene.parts(stored), [10], "{compression:?}");
        let largest = scene.blobs.iter().map(|blob| blob.stored_bytes).max().unwrap();
        let parts = scene.parts(3 * largest);
        assert!(parts[0] >= 3 && parts.len() >= 3, "{compression:?}: {parts:?}");
        assert_eq!(scene.parts(0), [1; 10], "the first value needs no room");
    }
}

/// Regression test: values were not read because the files of those before them, which were read
/// together, used up the descriptors.
#[test]
fn blobs_of_more_files_than_can_be_open_are_read_in_parts() {
    let scene = Scene::new(6, Compression::None);
    let budget = DescriptorBudget::new(100);
    let open: Arc<dyn KeepsFilesOpen> = Arc::clone(scene.cache.open_files()) as _;
    budget.register(Arc::downgrade(&open));
    for limit in 1..=6 {
        scene.storage.limit_open_files(limit, &budget);
        let parts = scene.parts(usize::MAX >> 1);
        assert_eq!(parts.iter().sum::<usize>(), 12, "{limit}: {parts:?}");
        assert!(parts.iter().all(|&count| count <= 2 * limit), "{limit}: {parts:?}");
    }
}

#[test]
fn no_more_files_are_used_together_than_the_cache_keeps_open() {
    let scene = Scene::new(6, Compression::None);
    for (capacity, parts) in [(1, vec![2; 6]), (4, vec![8, 4]), (6, vec![12])] {
        scene.cache.open_files().set_capacity(Some(capacity));
        assert_eq!(scene.parts(usize::MAX >> 1), parts);
    }
}
