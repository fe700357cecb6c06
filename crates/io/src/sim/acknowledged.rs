//! Checks that no block with an acknowledged byte is written again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::namespace::FileId;

/// Unit that a device may tear when overwriting it, in bytes.
const BLOCK: u64 = 4096;

/// A write into a block that holds an acknowledged byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwrite {
    /// The number of the call that wrote.
    pub call: u64,
    /// The file, by the path it was opened by.
    pub path: PathBuf,
    /// Start of the write, in bytes.
    pub offset: u64,
    /// Length of the write, in bytes.
    pub length: u64,
    /// Offset in the file of the first block with an acknowledged byte that the write touched.
    pub block: u64,
}

/// The acknowledged blocks of every file, and the writes over them.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    blocks: BTreeMap<FileId, BTreeSet<u64>>,
    overwrites: Vec<Overwrite>,
}

impl Acknowledged {
    /// Records that these bytes are acknowledged.
    pub(super) fn declare(&mut self, file: FileId, bytes: Range<u64>) {
        if !bytes.is_empty() {
            self.blocks.entry(file).or_default().extend(blocks_of(bytes));
        }
    }

    /// Forgets the acknowledged bytes of this file.
    pub(super) fn release(&mut self, file: FileId) {
        self.blocks.remove(&file);
    }

    /// Forgets the acknowledged blocks at and after `length`.
    pub(super) fn truncate(&mut self, file: FileId, length: u64) {
        if let Some(blocks) = self.blocks.get_mut(&file) {
            blocks.split_off(&length.div_ceil(BLOCK));
        }
    }

    /// Checks a write before it is executed.
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

/// Returns the numbers of the blocks that a non-empty span touches.
fn blocks_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
}
