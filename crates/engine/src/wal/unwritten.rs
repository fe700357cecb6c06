//! What a write that did not finish leaves of a record: sectors that are zeros.

use tailwater_format::log::{
    BLOCK_LENGTH, Damage, DamageReason, Event, HEADER_LENGTH, Skipped, SkippedReason,
};
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Purpose, ReadFile};

use crate::Result;

/// What a device writes whole or not at all, in bytes.
const SECTOR: u64 = 512;

/// Where space begins that was never written, if that is what was found.
pub(crate) fn begins_with(found: &Event<'_>) -> Option<u64> {
    match found {
        Event::Skipped(skipped) if is_space(skipped) => Some(skipped.offset),
        _ => None,
    }
}

/// Whether what was passed over is space that was never written: what a writer leaves free at the
/// end of a block is shorter.
pub(crate) fn is_space(skipped: &Skipped) -> bool {
    skipped.reason == SkippedReason::Zeros && skipped.dropped >= SECTOR
}

/// Whether damage of a log is what a write leaves that a crash of the machine cut off: sectors of
/// the fragment are zeros, as they were before, or whole blocks of its record.
pub(crate) fn explains(file: &dyn ReadFile, damage: &Damage) -> Result<bool> {
    match damage.reason {
        DamageReason::Zeros => Ok(true),
        DamageReason::Checksum { .. } | DamageReason::Length { .. } => {
            has_unwritten_sector(file, damage.offset)
        }
        _ => Ok(false),
    }
}

/// Whether the fragment at `offset` lies in a sector that is zeros.
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
