//! Checks that blocks compressed by RocksDB and by this crate decompress to their original
//! contents, and that decompressing damaged blocks never panics.
#![expect(clippy::unwrap_used, reason = "helpers fail as the tests that call them do")]

mod common;

use common::{GOLDEN, Golden, entries, value};
use tailwater_format::compress::{
    CompressedBlock, Compression, Compressor, CompressorOptions, DEFAULT_LEVEL,
    DecompressionDictionary, Decompressor, train_dictionary,
};

const WRITABLE: [Compression; 7] = [
    Compression::Snappy,
    Compression::Zlib,
    Compression::Bzip2,
    Compression::Lz4,
    Compression::Lz4Hc,
    Compression::Zstd,
    Compression::None,
];

fn dictionary(golden: &Golden) -> Option<DecompressionDictionary> {
    let bytes = golden.meta_block("rocksdb.compression_dict")?;
    Some(DecompressionDictionary::new(bytes.to_vec()).unwrap())
}

/// Returns the compression type and the bytes of each data block of a golden table.
fn data_blocks(golden: &Golden) -> Vec<(Compression, &'static [u8])> {
    let (_, offset, length) =
        golden.meta_blocks().into_iter().find(|block| block.0 == "rocksdb.index").unwrap();
    let mut index = Vec::new();
    let compression = Compression::from_byte(golden.bytes[offset + length]).unwrap();
    let bytes = &golden.bytes[offset..][..length];
    Decompressor::new().decompress(compression, bytes, None, &mut index).unwrap();
    let block = |(offset, length): (usize, usize)| {
        let compression = Compression::from_byte(golden.bytes[offset + length]).unwrap();
        (compression, &golden.bytes[offset..][..length])
    };
    golden.data_blocks(&index).into_iter().map(block).collect()
}

#[test]
fn every_entry_of_the_golden_tables_is_read() {
    let mut decompressor = Decompressor::new();
    let mut block = Vec::new();
    for golden in GOLDEN {
        let dictionary = dictionary(golden);
        assert_eq!(dictionary.is_some(), golden.name.contains("dictionary"), "{}", golden.name);
        let (mut found, mut compressed) = (0, 0);
        for (compression, bytes) in data_blocks(golden) {
            decompressor.decompress(compression, bytes, dictionary.as_ref(), &mut block).unwrap();
            compressed += usize::from(compression.to_byte() == golden.compression);
            for (key, stored) in entries(&block) {
                assert_eq!(&key[..key.len() - 8], format!("key{found:05}").as_bytes());
                assert_eq!(stored, value(found), "{}", golden.name);
                found += 1;
            }
            // Decompressing into a slice of the right length must give the same block. A slice of
            // another length must give an error.
            let framed = CompressedBlock::parse(compression, bytes).unwrap();
            let mut slice = vec![0; framed.uncompressed_length() + 1];
            assert!(
                decompressor.decompress_into(&framed, dictionary.as_ref(), &mut slice).is_err()
            );
            slice.pop();
            decompressor.decompress_into(&framed, dictionary.as_ref(), &mut slice).unwrap();
            assert_eq!(slice, block);
        }
        assert_eq!(found as usize, golden.entries, "{}", golden.name);
        assert!(compressed > 0, "{}", golden.name);
    }
}

#[test]
fn blocks_with_a_dictionary_need_it_to_decompress() {
    let mut decompressor = Decompressor::new();
    for name in ["lz4-dictionary", "zlib-dictionary", "zstd-raw-dictionary"] {
        let golden = GOLDEN.iter().find(|golden| golden.name == name).unwrap();
        let dictionary = dictionary(golden);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for (compression, bytes) in data_blocks(golden) {
            decompressor.decompress(compression, bytes, dictionary.as_ref(), &mut with).unwrap();
            let alone = decompressor.decompress(compression, bytes, None, &mut without);
            assert!(alone.is_err() || with != without, "{name}");
        }
    }
}

#[test]
fn damaged_blocks_never_panic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut decompressor = Decompressor::new();
    let mut output = Vec::new();
    for golden in GOLDEN {
        let dictionary = dictionary(golden);
        let (compression, bytes) = data_blocks(golden)[0];
        let mut sound = Vec::new();
        decompressor.decompress(compression, bytes, dictionary.as_ref(), &mut sound).unwrap();
        for length in 0..bytes.len() {
            let answer = decompressor.decompress(
                compression,
                &bytes[..length],
                dictionary.as_ref(),
                &mut output,
            );
            assert!(
                answer.is_err() || compression == Compression::None || output == sound,
                "{} truncated to {length}",
                golden.name
            );
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 1 << random.u32(..8);
            let _ =
                decompressor.decompress(compression, &damaged, dictionary.as_ref(), &mut output);
        }
        // The errors above must not prevent the decompressor from being used again.
        decompressor.decompress(compression, bytes, dictionary.as_ref(), &mut output).unwrap();
        assert_eq!(output, sound, "{}", golden.name);
    }
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
        if random.bool() && bytes.len() > 6 {
            bytes[..5].copy_from_slice(&[30, 0x28, 0xb5, 0x2f, 0xfd]);
        }
        let compression = Compression::BUILT_IN[random.usize(..Compression::BUILT_IN.len())];
        let _ = decompressor.decompress(compression, &bytes, None, &mut output);
    }
}

/// Returns a block of text with random parts.
fn text(random: &mut fastrand::Rng, length: usize) -> Vec<u8> {
    let mut block = Vec::new();
    while block.len() < length {
        block.extend_from_slice(&value(random.u64(..)));
    }
    block.truncate(length);
    block
}

#[test]
fn compression_round_trips() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut decompressor = Decompressor::new();
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    // The longest dictionary is longer than what LZ4 can use of it (64 KiB), and longer than the
    // window of zlib.
    let dictionaries = [0, 2_000, 100_000].map(|length| text(&mut random, length));
    for compression in WRITABLE {
        for level in [DEFAULT_LEVEL, 0, 1, 6] {
            for dictionary in &dictionaries {
                let prepared = DecompressionDictionary::new(dictionary.to_vec()).ok();
                let options = CompressorOptions { level, ..CompressorOptions::default() };
                let mut compressor = Compressor::new(compression, &options, dictionary).unwrap();
                for _ in 0..10 {
                    let length = random.usize(1..10_000);
                    let mut block = text(&mut random, length);
                    if random.u8(..8) == 0 {
                        block.fill_with(|| random.u8(..));
                    }
                    let kind = compressor.compress(&block, &mut packed);
                    if kind == Compression::None {
                        continue;
                    }
                    assert_eq!(kind, compressor.compression());
                    assert!(packed.len() <= block.len() * 896 / 1024);
                    decompressor.decompress(kind, &packed, prepared.as_ref(), &mut back).unwrap();
                    assert!(back == block, "{compression:?} level {level} of {length} bytes");
                }
            }
        }
    }
}

#[test]
fn blocks_that_do_not_shrink_enough_are_left_alone() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut output = Vec::new();
    let noise: Vec<u8> = (0..4096).map(|_| random.u8(..)).collect();
    let prose = text(&mut random, 4096);
    for compression in WRITABLE {
        let at = |max_compressed_bytes_per_kb| {
            let options =
                CompressorOptions { max_compressed_bytes_per_kb, ..CompressorOptions::default() };
            Compressor::new(compression, &options, &[]).unwrap()
        };
        assert_eq!(at(896).compress(&noise, &mut output), Compression::None);
        assert_eq!(at(896).compress(b"", &mut output), Compression::None);
        assert_eq!(at(0).compress(&prose, &mut output), Compression::None);
        assert_eq!(at(5).compress(&prose, &mut output), Compression::None);
        assert_eq!(at(2000).compress(&prose, &mut output), compression);
        // A compressor must still work after a block that it could not compress.
        let mut compressor = at(896);
        compressor.compress(&noise, &mut output);
        assert_eq!(compressor.compress(&prose, &mut output), compression);
    }
}

#[test]
fn values_are_compressed_even_if_they_grow() {
    let mut random = fastrand::Rng::with_seed(13);
    let mut decompressor = Decompressor::new();
    let (mut packed, mut back) = (Vec::new(), Vec::new());
    for compression in WRITABLE {
        let options = CompressorOptions::default();
        let mut compressor = Compressor::new(compression, &options, &[]).unwrap();
        for length in [0, 1, 5, 100, 5000, 100_000] {
            let noise: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let answer = compressor.compress_always(&noise, &mut packed);
            assert_eq!(answer.is_err(), compression == Compression::None);
            if answer.is_ok() {
                decompressor.decompress(compression, &packed, None, &mut back).unwrap();
                assert!(back == noise, "{compression:?} of {length} bytes");
            }
        }
    }
}

#[test]
fn the_level_selects_the_lz4_compressor() {
    let made = |compression, level| {
        let options = CompressorOptions { level, ..CompressorOptions::default() };
        Compressor::new(compression, &options, &[]).unwrap().compression()
    };
    assert_eq!(made(Compression::Lz4, DEFAULT_LEVEL), Compression::Lz4);
    assert_eq!(made(Compression::Lz4Hc, DEFAULT_LEVEL), Compression::Lz4Hc);
    assert_eq!(made(Compression::Lz4, 3), Compression::Lz4Hc);
    assert_eq!(made(Compression::Lz4Hc, i32::MIN), Compression::Lz4);
    // zlib has no level 10. Blocks are then stored uncompressed, as in RocksDB.
    assert_eq!(made(Compression::Zlib, 9), Compression::Zlib);
    assert_eq!(made(Compression::Zlib, 10), Compression::None);
    let options = CompressorOptions::default();
    assert!(Compressor::new(Compression::Custom(0x90), &options, &[]).is_err());
    assert!(Compressor::new(Compression::ZstdNotFinal, &options, &[]).is_err());
}

#[test]
fn a_trained_dictionary_saves_bytes() {
    let mut random = fastrand::Rng::with_seed(11);
    let lengths: Vec<usize> = (0..400).map(|_| random.usize(60..100)).collect();
    let samples = text(&mut random, lengths.iter().sum());
    let dictionary = train_dictionary(&samples, &lengths, 2000).unwrap();
    assert!(dictionary.len() <= 2000);
    let options = CompressorOptions { checksum: true, ..CompressorOptions::default() };
    let block = text(&mut random, 600);
    let packed = |dictionary: &[u8]| {
        let mut output = Vec::new();
        let mut compressor = Compressor::new(Compression::Zstd, &options, dictionary).unwrap();
        assert_eq!(compressor.compress(&block, &mut output), Compression::Zstd);
        output
    };
    let with = packed(&dictionary);
    assert!(with.len() < packed(&[]).len());
    let prepared = DecompressionDictionary::new(dictionary).unwrap();
    let mut back = Vec::new();
    let mut decompressor = Decompressor::new();
    decompressor.decompress(Compression::Zstd, &with, Some(&prepared), &mut back).unwrap();
    assert_eq!(back, block);
    assert!(prepared.memory_usage() > prepared.bytes().len());
    // The checksum at the end of the ZSTD frame detects a flipped bit.
    let mut damaged = with.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(
        decompressor.decompress(Compression::Zstd, &damaged, Some(&prepared), &mut back).is_err()
    );
    assert_eq!(train_dictionary(&samples, &lengths[1..], 2000), None);
    assert!(DecompressionDictionary::new(Vec::new()).is_err());
}

#[test]
fn contexts_move_between_threads_and_dictionaries_are_shared() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Compressor>();
    moves::<Decompressor>();
    is_shared::<DecompressionDictionary>();
}

/// Regression test: blocks that are so short that RocksDB does not try to compress them were
/// counted as blocks that did not compress well enough.
#[test]
fn blocks_without_space_for_a_result_are_not_tried() {
    let options = CompressorOptions { max_compressed_bytes_per_kb: 300, ..Default::default() };
    for (kind, tries_short) in
        [(Compression::Zstd, false), (Compression::Lz4, false), (Compression::Snappy, true)]
    {
        let compressor = Compressor::new(kind, &options, &[]).expect("a compressor");
        // 19 * 300 / 1024 is 5, the maximum size of the length prefix.
        assert_eq!(compressor.tries(19), tries_short, "{kind:?}");
        assert!(compressor.tries(21), "{kind:?}");
    }
    let compressor = Compressor::new(Compression::None, &options, &[]).expect("a compressor");
    assert!(!compressor.tries(4096));
}
