//! Compression. Checks that decompression restores the original bytes, with every writable codec,
//! and with various levels and dictionaries.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tailwater_format::compress::{
    Compression, Compressor, CompressorOptions, DecompressionDictionary, Decompressor,
};
use tailwater_fuzz::Choices;

fuzz_target!(|input: &[u8]| {
    let (mut choices, block) = Choices::split(input);
    let writable: Vec<_> =
        Compression::BUILT_IN.into_iter().filter(|kind| kind.is_writable()).collect();
    let kind = choices.of(&writable);
    let level = i32::from(choices.byte() as i8) / 8;
    let options = CompressorOptions { level, ..CompressorOptions::default() };
    let dictionary = if choices.flag() { choices.string() } else { &[] };
    let Ok(mut compressor) = Compressor::new(kind, &options, dictionary) else { return };
    let dictionary = DecompressionDictionary::new(dictionary.to_vec()).ok();

    let mut decompressor = Decompressor::new();
    let (mut compressed, mut output) = (Vec::new(), Vec::new());
    let used = compressor.compress(block, &mut compressed);
    if used != Compression::None {
        assert!(compressed.len() < block.len());
        let result = decompressor.decompress(used, &compressed, dictionary.as_ref(), &mut output);
        assert_eq!(result, Ok(()), "{used:?} at level {level}");
        assert_eq!(output, block);
    }
    compressed.clear();
    if compressor.compress_always(block, &mut compressed).is_ok() {
        let result = decompressor.decompress(kind, &compressed, dictionary.as_ref(), &mut output);
        assert_eq!(result, Ok(()), "{kind:?} at level {level}");
        assert_eq!(output, block);
    }
});
