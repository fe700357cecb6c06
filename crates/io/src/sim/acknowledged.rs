//! Detects writes to blocks that contain acknowledged bytes. A crash during such a write could tear
//! the block and lose these bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::namespace::FileId;

/// Size of a block, in bytes. If the power fails while a write changes a part of a block, the whole
/// block may be lost.
const BLOCK: u64 = 4096;

/// A write to a block that contains an acknowledged byte. A byte is acknowledged once a test
/// declares that a power cut must not lose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwrite {
    /// The number of the storage call that made the write.
    pub call: u64,
    /// The path at which the file was opened.
    pub path: PathBuf,
    /// Offset of the write in the file, in bytes.
    pub offset: u64,
    /// Length of the write, in bytes.
    pub length: u64,
    /// Offset in the file, in bytes, of the first block that this write touches and that contains
    /// an acknowledged byte.
    pub block: u64,
}

/// The blocks of each file that contain acknowledged bytes, and the writes to such blocks. A test
/// declares which bytes are acknowledged: a power cut must not lose them.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    blocks: BTreeMap<FileId, BTreeSet<u64>>,
    overwrites: Vec<Overwrite>,
}

impl Acknowledged {
    /// Records that these bytes of the file are acknowledged.
    pub(super) fn declare(&mut self, file: FileId, bytes: Range<u64>) {
        if !bytes.is_empty() {
            self.blocks.entry(file).or_default().extend(blocks_of(bytes));
        }
    }

    /// Forgets all acknowledged bytes of this file.
    pub(super) fn release(&mut self, file: FileId) {
        self.blocks.remove(&file);
    }

    /// Forgets the acknowledged blocks that begin at or after `length`, to which the file is
    /// truncated.
    pub(super) fn truncate(&mut self, file: FileId, length: u64) {
        if let Some(blocks) = self.blocks.get_mut(&file) {
            blocks.split_off(&length.div_ceil(BLOCK));
        }
    }

    /// Records a write of these bytes, before it is executed, if it touches an acknowledged block.
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

/// Returns the numbers of the blocks that contain these bytes. `bytes` is not empty.
fn blocks_of(bytes: Range<u64>) -> Range<u64> {
    bytes.start / BLOCK..bytes.end.div_ceil(BLOCK)
}
