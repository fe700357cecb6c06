//! zstd as used by compressed logs: a frame with a checksum for each record, decompressed fragment
//! by fragment.

use zstd::zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective};

use super::{BLOCK_LENGTH, compression_failed};
use crate::Result;

/// Compresses records one by one into a buffer that it keeps.
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

/// Decompresses the fragments of a log in order. Its state carries over from one fragment to the
/// next.
pub(super) struct Decompressor {
    context: DCtx<'static>,
    output: Vec<u8>,
}

impl Decompressor {
    pub(super) fn new() -> Self {
        Self { context: DCtx::create(), output: Vec::new() }
    }

    /// Discards an unfinished frame.
    pub(super) fn reset(&mut self) {
        // Fails only for parameters that are changed in the middle of a frame; none are.
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
            // zstd retains output that did not fit, so a full buffer may be followed by more
            // without further input.
            more = input.pos() < fragment.len() || output.pos() - filled == room;
        }
        true
    }

    /// Returns the decompressed last fragment.
    pub(super) fn output(&self) -> &[u8] {
        &self.output
    }
}
