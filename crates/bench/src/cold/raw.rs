//! Reads of table files without an engine.

use std::path::PathBuf;

use fastrand::Rng;
use tailwater_io::probe::BlockReader;

use super::arguments::Mode;
use super::figures::{Figures, Timed};
use crate::store::Failure;

/// Length of a random read, in bytes.
const BLOCK_BYTES: usize = 4096;
/// Length of a sequential read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// Number of sequential reads in flight.
const CHUNKS_IN_FLIGHT: usize = 8;

/// How several blocks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raw {
    /// All are submitted together, and all must complete before the next are submitted.
    Together,
    /// One after the other.
    InTurn,
    /// One after the other, but only the slowest counts.
    Slowest,
}

impl Raw {
    /// Reads random blocks of the files, `count` times `blocks` blocks, no block twice.
    pub(super) fn read(
        self,
        files: &[PathBuf],
        mode: Mode,
        (count, blocks): (usize, usize),
        seed: u64,
    ) -> Result<Figures, Failure> {
        let mut reader = BlockReader::open(files, mode.io_mode(), BLOCK_BYTES, blocks)?;
        let mut numbers: Vec<u64> = (0..reader.blocks()).collect();
        Rng::with_seed(seed).shuffle(&mut numbers);
        let mut timed = Timed::new()?;
        for batch in numbers.chunks_exact(blocks).take(count) {
            match self {
                Self::Together => timed.operation(|| Ok(reader.read_batch(batch)?))?,
                Self::InTurn => timed.operation(|| {
                    Ok(batch.iter().try_for_each(|block| reader.read_one(*block))?)
                })?,
                Self::Slowest => {
                    timed.slowest_of(batch.iter(), |block| Ok(reader.read_one(*block)?))?;
                }
            }
        }
        Ok(timed.figures(blocks as u64))
    }
}

/// Reads all files in order with direct I/O, with several requests in flight.
pub(super) fn read_sequentially(files: &[PathBuf]) -> Result<Figures, Failure> {
    let direct = Mode::Direct.io_mode();
    let mut reader = BlockReader::open(files, direct, CHUNK_BYTES, CHUNKS_IN_FLIGHT)?;
    let mut timed = Timed::new()?;
    let mut bytes = 0;
    timed.operation(|| {
        bytes = reader.read_all()?;
        Ok(())
    })?;
    Ok(timed.figures(bytes))
}
