//! Detects unfinished writes: records in which whole sectors are zeros.

use tailwater_format::record_log::{
    BLOCK_LENGTH, Damage, DamageReason, HEADER_LENGTH, Skipped, SkippedReason,
};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Purpose, ReadFile};

use crate::error::Result;

/// Size of a sector, the unit that a device writes atomically, in bytes.
const SECTOR: u64 = 512;

/// Whether the skipped bytes are unwritten space: they contain at least a sector of zeros, which is
/// more than a writer leaves at the end of a block.
pub(crate) fn is_space(skipped: &Skipped) -> bool {
    skipped.reason == SkippedReason::Zeros && skipped.dropped >= SECTOR
}

/// Whether damage of a log can come from a write that a crash of the machine cut off. Such a write
/// leaves zeros in sectors of the damaged fragment, or in whole blocks of its record.
pub(crate) fn explains(file: &dyn ReadFile, damage: &Damage) -> Result<bool> {
    match damage.reason {
        DamageReason::Zeros => Ok(true),
        DamageReason::Checksum { .. } | DamageReason::Length { .. } => {
            has_unwritten_sector(file, damage.offset)
        }
        _ => Ok(false),
    }
}

/// Whether one of the sectors of the fragment at `offset` is all zeros.
fn has_unwritten_sector(file: &dyn ReadFile, offset: u64) -> Result<bool> {
    let mut buffer = AlignedBuffer::with_capacity(BLOCK_LENGTH);
    let header = file.read_span(&mut buffer, offset, HEADER_LENGTH, Purpose::Wal)?;
    let stated = match *header {
        [_, _, _, _, low, high, ..] => u64::from(u16::from_le_bytes([low, high])),
        _ => return Ok(false),
    };
    let block_end = (offset + 1).next_multiple_of(BLOCK_LENGTH as u64);
    let end = (offset + HEADER_LENGTH as u64 + stated).min(block_end).next_multiple_of(SECTOR);
    let begin = offset - offset % SECTOR;
    let sectors = file.read_span(&mut buffer, begin, (end - begin) as usize, Purpose::Wal)?;
    let sectors = sectors.chunks_exact(SECTOR as usize);
    Ok(sectors.into_iter().any(|sector| sector.iter().all(|&byte| byte == 0)))
}
