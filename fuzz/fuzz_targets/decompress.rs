//! Decompresses arbitrary bytes with every codec, with and without a dictionary.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::compress::{
    CompressedBlock, Compression, DecompressionDictionary, Decompressor,
};
use tailwater_fuzz::{Choices, allocation};

/// Maximum length of an input, in bytes. It limits the time of a run, because zstd may decompress
/// each byte of the input to 32 KiB.
const LENGTH_MAX: usize = 2048;

fuzz_target!(|input: &[u8]| {
    if input.len() > LENGTH_MAX {
        return;
    }
    let (mut choices, data) = Choices::split(input);
    let kind = Compression::from_byte(choices.byte()).unwrap_or(Compression::Zstd);
    let dictionary = if choices.flag() { DecompressionDictionary::new(choices.string().to_vec()).ok() } else { None };
    let mut decompressor = Decompressor::new();
    allocation::within(output_max(kind, data.len()), || {
        let mut output = Vec::new();
        let first = decompressor.decompress(kind, data, dictionary.as_ref(), &mut output);
        if first.is_ok() {
            let block = CompressedBlock::parse(kind, data).expect("a block that was decompressed");
            assert_eq!(output.len(), block.uncompressed_length());
        }
        // A second decompression with the same decompressor must have the same result. Only the
        // error message may differ, because the wording of zstd depends on whether the dictionary
        // was used before.
        let mut again = Vec::new();
        let second = decompressor.decompress(kind, data, dictionary.as_ref(), &mut again);
        assert_eq!(first.is_ok(), second.is_ok());
        assert!(first.is_err() || output == again);
    });
});

/// Returns the maximum memory, in bytes, for decompressing an input of `length` bytes twice and
/// keeping both outputs.
fn output_max(kind: Compression, length: usize) -> usize {
    let amplification = match kind {
        Compression::None => 1,
        Compression::Snappy => 22,
        Compression::Lz4 | Compression::Lz4Hc => 255,
        Compression::Zlib => 1032,
        Compression::Zstd | Compression::ZstdNotFinal => 128 << 10,
        // The output buffer grows while bzip2 produces the output. The tables of bzip2 take another
        // 4 MB.
        Compression::Bzip2 => 64 << 10,
        // Not supported.
        _ => 0,
    };
    (16 << 20) + 2 * amplification * length
}
