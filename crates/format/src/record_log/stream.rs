//! zstd as used by compressed logs. Each record is one zstd frame with a checksum, and is
//! decompressed fragment by fragment.

use zstd::zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective};

use super::{BLOCK_LENGTH, compression_failed};
use crate::Result;

/// Compresses records one by one into a buffer that is reused.
pub(super) struct Compressor {
    context: CCtx<'static>,
    output: Vec<u8>,
}

impl Compressor {
    pub(super) fn new() -> Result<Self> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::ChecksumFlag(true)).map_err(compression_failed)?;
        Ok(Self { context, output: Vec::new() })
    }

    /// Returns the frame of `payload`; an empty payload stays empty.
    pub(super) fn compress(&mut self, payload: &[u8]) -> Result<&[u8]> {
        self.output.clear();
        if !payload.is_empty() {
            self.output.reserve(zstd::compress_bound(payload.len()));
            self.context.compress2(&mut self.output, payload).map_err(compression_failed)?;
        }
        Ok(&self.output)
    }
}

/// Decompresses the fragments of a log in order. A frame may extend over several fragments, so the
/// decompressor keeps its state between calls.
pub(super) struct Decompressor {
    context: DCtx<'static>,
    output: Vec<u8>,
}

impl Decompressor {
    pub(super) fn new() -> Self {
        Self { context: DCtx::create(), output: Vec::new() }
    }

    /// Discards the state of an unfinished frame.
    pub(super) fn reset(&mut self) {
        // A reset fails only if parameters are changed in the middle of a frame. No parameters are
        // changed.
        let _ = self.context.reset(ResetDirective::SessionOnly);
    }

    /// Decompresses a fragment into [`Decompressor::output`]; false if zstd rejects it. An empty
    /// fragment gives empty output.
    #[must_use]
    pub(super) fn decompress(&mut self, fragment: &[u8]) -> bool {
        self.output.clear();
        let mut input = InBuffer::around(fragment);
        let mut more = !fragment.is_empty();
        while more {
            self.output.reserve(BLOCK_LENGTH);
            let filled = self.output.len();
            let room = self.output.capacity() - filled;
            let mut output = OutBuffer::around_pos(&mut self.output, filled);
            if self.context.decompress_stream(&mut output, &mut input).is_err() {
                self.reset();
                return false;
            }
            // zstd retains output that did not fit. If it filled the buffer, more output may follow
            // without further input.
            more = input.pos() < fragment.len() || output.pos() - filled == room;
        }
        true
    }

    /// Returns the decompressed bytes of the last fragment.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }
}
