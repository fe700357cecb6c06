//! Watches that no block which holds an acknowledged byte is written again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::namespace::FileId;

/// What a device may tear when it is written again, in bytes.
const BLOCK: u64 = 4096;

/// A write into a block that holds an acknowledged byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwrite {
    /// The number of the call that wrote.
    pub call: u64,
    /// The file, by the path it was opened by.
    pub path: PathBuf,
    /// Where the write began, in bytes.
    pub offset: u64,
    /// How many bytes it was to write.
    pub length: u64,
    /// Where the first block with an acknowledged byte begins that it touched, in bytes.
    pub block: u64,
}

/// The acknowledged blocks of every file, and what was written over them.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    blocks: BTreeMap<FileId, BTreeSet<u64>>,
    overwrites: Vec<Overwrite>,
}

impl Acknowledged {
    /// These bytes have been promised to somebody.
    pub(super) fn declare(&mut self, file: FileId, bytes: Range<u64>) {
        if !bytes.is_empty() {
            self.blocks.entry(file).or_default().extend(blocks_of(bytes));
        }
    }

    /// Nothing of this file is promised any more.
    pub(super) fn release(&mut self, file: FileId) {
        self.blocks.remove(&file);
    }

    /// Bytes from `length` on are gone.
    pub(super) fn truncate(&mut self, file: FileId, length: u64) {
        if let Some(blocks) = self.blocks.get_mut(&file) {
            blocks.split_off(&length.div_ceil(BLOCK));
        }
    }

    /// Looks at a write before it is done.
    pub(super) fn check(&mut self, file: FileId, call: u64, path: &Path, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        let touched = self.blocks.get(&file);
        let touched = touched.and_then(|blocks| blocks.range(blocks_of(bytes.clone())).next());
        if let Some(block) = touched {
            self.overwrites.push(Overwrite {
                call,
                path: path.to_owned(),
                offset: bytes.start,
                length: bytes.end - bytes.start,
                block: block * BLOCK,
            });
        }
    }

    pub(super) fn overwrites(&self) -> &[Overwrite] {
        &self.overwrites
    }
}

/// The numbers of the blocks that a span, which is not empty, touches.
fn blocks_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
}
