//! LZ4's block format, implemented by the reference C library.
//!
//! The library's decoder takes 1.06 us for a 4 KiB block of source code; the fastest decoder in
//! safe Rust takes 1.50 us. Only the library can compress with a dictionary without allocating a
//! table for each block, and only it supports all levels that RocksDB's options name. The unsafe
//! code here only calls the library's block functions. They require only that pointers and lengths
//! match, which slices ensure.
#![expect(unsafe_code, reason = "calls into the C library; every call passes whole slices")]

use std::ffi::{c_char, c_int};
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::NonNull;

// Links the C library that defines the functions declared below. `lz4_sys` does not declare them.
use lz4_sys as _;

/// The highest acceleration that the library supports.
const MAX_ACCELERATION: i32 = 65_537;
/// The highest level of the library's slower compressor.
const MAX_HIGH_LEVEL: i32 = 12;

/// A type that exists only behind pointers from the library.
#[repr(C)]
struct Opaque {
    _bytes: [u8; 0],
    _not_send_or_unpin: PhantomData<(*mut u8, PhantomPinned)>,
}

// SAFETY: the signatures are those that the header of the linked library declares (lz4.h).
unsafe extern "C" {
    fn LZ4_decompress_safe_usingDict(
        source: *const c_char,
        output: *mut c_char,
        source_length: c_int,
        output_capacity: c_int,
        dictionary: *const c_char,
        dictionary_length: c_int,
    ) -> c_int;
    fn LZ4_compress_fast(
        source: *const c_char,
        output: *mut c_char,
        source_length: c_int,
        output_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_createStream() -> *mut Opaque;
    fn LZ4_freeStream(stream: *mut Opaque) -> c_int;
    fn LZ4_resetStream_fast(stream: *mut Opaque);
    fn LZ4_loadDict(stream: *mut Opaque, dictionary: *const c_char, length: c_int) -> c_int;
    fn LZ4_attach_dictionary(working: *mut Opaque, dictionary: *const Opaque);
    fn LZ4_compress_fast_continue(
        stream: *mut Opaque,
        source: *const c_char,
        output: *mut c_char,
        source_length: c_int,
        output_capacity: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_createStreamHC() -> *mut Opaque;
    fn LZ4_freeStreamHC(stream: *mut Opaque) -> c_int;
    fn LZ4_resetStreamHC_fast(stream: *mut Opaque, level: c_int);
    fn LZ4_loadDictHC(stream: *mut Opaque, dictionary: *const c_char, length: c_int) -> c_int;
    fn LZ4_compress_HC_continue(
        stream: *mut Opaque,
        source: *const c_char,
        output: *mut c_char,
        source_length: c_int,
        output_capacity: c_int,
    ) -> c_int;
}

/// Decompresses all of `source` into `output` and returns the number of bytes produced; `None` for
/// malformed bytes or an output that is too short. An empty dictionary counts as none.
pub(super) fn decompress(source: &[u8], dictionary: &[u8], output: &mut [u8]) -> Option<usize> {
    let dictionary = last_64_kib(dictionary);
    let (source_length, capacity) = (c_length(source)?, c_length(output)?);
    // SAFETY: each pointer is that of a slice and is passed with that slice's length. `output` is
    // borrowed mutably, so it overlaps neither `source` nor `dictionary`. Whatever the bytes, the
    // function reads and writes only within the slices.
    let written = unsafe {
        LZ4_decompress_safe_usingDict(
            source.as_ptr().cast(),
            output.as_mut_ptr().cast(),
            source_length,
            capacity,
            dictionary.as_ptr().cast(),
            c_length(dictionary)?,
        )
    };
    usize::try_from(written).ok()
}

/// The fast or the slower compressor with its tables and, if any, its dictionary.
pub(super) enum Encoder {
    /// The fast compressor; the higher the acceleration, the fewer matches it looks for.
    Fast { acceleration: c_int, dictionary: Option<FastDictionary> },
    /// The slower compressor, with a better ratio.
    High { level: c_int, dictionary: Vec<u8>, stream: HighStream },
}

impl Encoder {
    /// Creates the compressor for a RocksDB level. A level above 0 uses the slower compressor. Any
    /// other level uses the fast compressor, with the negated level as its acceleration. `None` if
    /// the library is out of memory.
    pub(super) fn new(level: i32, dictionary: &[u8]) -> Option<Self> {
        let dictionary = last_64_kib(dictionary).to_vec();
        if level > 0 {
            let level = level.min(MAX_HIGH_LEVEL);
            return Some(Self::High { level, dictionary, stream: HighStream::new()? });
        }
        let acceleration = level.checked_neg().unwrap_or(MAX_ACCELERATION);
        let dictionary =
            if dictionary.is_empty() { None } else { Some(FastDictionary::new(dictionary)?) };
        Some(Self::Fast { acceleration: acceleration.clamp(1, MAX_ACCELERATION), dictionary })
    }

    /// Compresses `source` into `output` and returns the compressed length; `None` if it does not
    /// fit.
    pub(super) fn compress(&mut self, source: &[u8], output: &mut [u8]) -> Option<usize> {
        let (length, capacity) = (c_length(source)?, c_length(output)?);
        let (input, target) = (source.as_ptr().cast(), output.as_mut_ptr().cast());
        let written = match self {
            Self::Fast { acceleration, dictionary: None } => {
                // SAFETY: pointers and lengths are those of `source` and `output`, which do not
                // overlap.
                unsafe { LZ4_compress_fast(input, target, length, capacity, *acceleration) }
            }
            Self::Fast { acceleration, dictionary: Some(dictionary) } => {
                let working = dictionary.working.0.as_ptr();
                // SAFETY: both streams came from the library and are live; the dictionary bytes of
                // the prepared one are in a vector that is not modified again. Pointers and lengths
                // are those of the slices.
                unsafe {
                    LZ4_resetStream_fast(working);
                    LZ4_attach_dictionary(working, dictionary.prepared.0.as_ptr());
                    LZ4_compress_fast_continue(
                        working,
                        input,
                        target,
                        length,
                        capacity,
                        *acceleration,
                    )
                }
            }
            Self::High { level, dictionary, stream } => {
                let stream = stream.0.as_ptr();
                // SAFETY: the stream came from the library and is live, the dictionary outlives the
                // call, and pointers and lengths are those of the slices. The reset clears a stream
                // that a failure left dirty.
                unsafe {
                    LZ4_resetStreamHC_fast(stream, *level);
                    if !dictionary.is_empty() {
                        let length = c_length(dictionary)?;
                        LZ4_loadDictHC(stream, dictionary.as_ptr().cast(), length);
                    }
                    LZ4_compress_HC_continue(stream, input, target, length, capacity)
                }
            }
        };
        usize::try_from(written).ok().filter(|&written| written > 0)
    }
}

/// A stream of the fast compressor.
struct FastStream(NonNull<Opaque>);

impl FastStream {
    fn new() -> Option<Self> {
        // SAFETY: the function only allocates; null means that it could not.
        NonNull::new(unsafe { LZ4_createStream() }).map(Self)
    }
}

impl Drop for FastStream {
    fn drop(&mut self) {
        // SAFETY: the pointer came from LZ4_createStream and is not used again.
        unsafe { LZ4_freeStream(self.0.as_ptr()) };
    }
}

/// A stream of LZ4 HC, which compresses more slowly than the fast compressor.
pub(super) struct HighStream(NonNull<Opaque>);

impl HighStream {
    fn new() -> Option<Self> {
        // SAFETY: the function only allocates; null means that it could not.
        NonNull::new(unsafe { LZ4_createStreamHC() }).map(Self)
    }
}

impl Drop for HighStream {
    fn drop(&mut self) {
        // SAFETY: the pointer came from LZ4_createStreamHC and is not used again.
        unsafe { LZ4_freeStreamHC(self.0.as_ptr()) };
    }
}

/// A dictionary for the fast compressor. `prepared` is the dictionary, hashed once; `working`
/// compresses each block and refers to `prepared`.
pub(super) struct FastDictionary {
    working: FastStream,
    prepared: FastStream,
    /// The bytes that `prepared` points into.
    _bytes: Vec<u8>,
}

impl FastDictionary {
    fn new(bytes: Vec<u8>) -> Option<Self> {
        let (working, prepared) = (FastStream::new()?, FastStream::new()?);
        // SAFETY: the stream is live. The bytes are at a fixed address on the heap, and the
        // returned value owns them for as long as the stream.
        unsafe { LZ4_loadDict(prepared.0.as_ptr(), bytes.as_ptr().cast(), c_length(&bytes)?) };
        Some(Self { working, prepared, _bytes: bytes })
    }
}

// SAFETY: a stream is plain memory that belongs to its owner alone; the library keeps no
// thread-local state.
unsafe impl Send for FastStream {}
// SAFETY: as for the fast stream.
unsafe impl Send for HighStream {}

/// Returns the last 64 KiB of a dictionary: LZ4 matches reach no further back.
fn last_64_kib(dictionary: &[u8]) -> &[u8] {
    dictionary.last_chunk::<65_536>().map_or(dictionary, |last| last)
}

fn c_length(bytes: &[u8]) -> Option<c_int> {
    c_int::try_from(bytes.len()).ok()
}
