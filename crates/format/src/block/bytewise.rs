//! A seek in a data block with bytewise order that does not assemble the keys that it passes.
//!
//! An entry stores how many bytes its key shares with the key of the previous entry. The search
//! keeps the number of leading bytes of the previous key that match the target. If an entry shares
//! more bytes than that with the previous key, it differs from the target at the same byte as the
//! previous key. So it is also below the target, and the search skips it without reading its key.
//! If an entry shares no more bytes than that, its shared bytes equal the target's, and only its
//! other bytes are compared.

use std::ops::Range;

use crate::Result;
use crate::block::cursor::Cursor;
use crate::block::interval::Interval;
use crate::block::layout::Layout;
use crate::block::position::{EntryHead, bad_entry};
use crate::block::target::Target;
use crate::comparator::Comparator;
use crate::key;

/// The result of comparing the key of an entry with the target.
enum Verdict {
    /// The key is below the target. This is the number of leading bytes that are equal; the next
    /// byte differs.
    Below(usize),
    /// The entry's user key equals the target's user key or is a prefix of it, so the trailers may
    /// have to be compared.
    Beginning,
    /// The entry's user key is above the target's.
    Reached,
}

impl Cursor {
    /// Moves to the first entry that is not below `target`, or past the last entry if there is
    /// none.
    ///
    /// # Errors
    /// Corruption if an entry is malformed.
    #[inline]
    pub fn seek(&mut self, block: &[u8], layout: &Layout, target: &Target<'_>) -> Result<()> {
        self.seek_and_announce(block, layout, target, |_| ())
    }

    /// Like [`Cursor::seek`]. Calls `announce` with the range of bytes that the rest of the search
    /// may read, before it reads them, so that the caller can prefetch them.
    #[inline]
    pub fn seek_and_announce(
        &mut self,
        block: &[u8],
        layout: &Layout,
        target: &Target<'_>,
        announce: impl FnOnce(Range<usize>),
    ) -> Result<()> {
        let interval = Interval::of(block, layout, target)?;
        announce(interval.bytes(block, layout));
        self.seek_in(block, layout, interval, target)
    }

    /// Moves to the first entry at or after the beginning of `interval` that is not below the
    /// target. `interval` must be of this block.
    ///
    /// # Errors
    /// Corruption if an entry is malformed.
    #[inline]
    pub fn seek_in(
        &mut self,
        block: &[u8],
        layout: &Layout,
        interval: Interval,
        target: &Target<'_>,
    ) -> Result<()> {
        if layout.is_empty() {
            self.position.at_end(layout);
            return Ok(());
        }
        self.before_restart(block, layout, interval.restart)?;
        match target.comparator {
            Comparator::Bytewise if !layout.values_apart => {
                self.scan_bytewise(block, layout, target)
            }
            _ => self.scan(block, layout, |entry| target.compare(entry)),
        }
    }

    /// The cursor must be before the first entry of a restart interval. Moves it forward to the
    /// first entry that is not below the target.
    fn scan_bytewise(&mut self, block: &[u8], layout: &Layout, target: &Target<'_>) -> Result<()> {
        // Number of leading bytes of the previous entry's key that equal the target's. The byte
        // after them is below the target's.
        let mut matched = 0;
        while self.position.next < layout.entries_end {
            let entry = self.position.next;
            let at_restart = self.position.meets_restart(block, layout)?;
            let head = EntryHead::decode::<true>(block, entry, layout.entries_end, false)
                .filter(|head| !at_restart || head.shared == 0)
                .ok_or_else(|| bad_entry(entry))?;
            let key_end = head.key_end();
            let end = key_end
                .checked_add(head.value_length)
                .filter(|&end| end <= layout.entries_end)
                .ok_or_else(|| bad_entry(entry))?;
            self.position.next = end;
            let shared = head.shared as usize;
            if shared > matched {
                continue;
            }
            let unshared = block
                .get(head.key_start as usize..key_end as usize)
                .ok_or_else(|| bad_entry(entry))?;
            let verdict = judge(unshared, shared, target);
            if let Verdict::Below(bytes) = verdict {
                matched = bytes;
                continue;
            }
            let key = &mut self.position.key;
            key.clear();
            key.extend_from_slice(target.user_key.get(..shared).unwrap_or_default());
            key.extend_from_slice(unshared);
            self.position.entry = entry;
            self.position.valid = true;
            self.value = key_end..end;
            if matches!(verdict, Verdict::Beginning) && target.compare(&self.position.key).is_lt() {
                // The next entries may share more than the user key with this entry, namely a part
                // of its trailer. So the rest of the scan assembles and compares whole keys.
                return self.scan(block, layout, |entry| target.compare(entry));
            }
            return Ok(());
        }
        self.position.at_end(layout);
        Ok(())
    }
}

/// Compares the key of an entry with the target. The first `shared` bytes of both are equal, and
/// `unshared` is the rest of the entry's key, including its trailer.
#[inline(always)]
fn judge(unshared: &[u8], shared: usize, target: &Target<'_>) -> Verdict {
    let Some(length) = unshared.len().checked_sub(key::TRAILER_LENGTH) else {
        return Verdict::Beginning;
    };
    let rest = target.user_key.get(shared..).unwrap_or_default();
    let suffix = unshared.get(..length).unwrap_or_default();
    let common = common_prefix(suffix, rest);
    match (suffix.get(common), rest.get(common)) {
        (None, _) => Verdict::Beginning,
        (Some(entry), Some(target)) if entry < target => Verdict::Below(shared + common),
        (Some(_), _) => Verdict::Reached,
    }
}

/// Returns the length of the common prefix of two byte strings.
#[inline(always)]
pub(super) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    while let (Some(a), Some(b)) = (
        a.get(common..).and_then(|rest| rest.first_chunk::<8>()),
        b.get(common..).and_then(|rest| rest.first_chunk::<8>()),
    ) {
        let difference = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if difference != 0 {
            return common + difference.trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let rest = a.iter().zip(b).skip(common);
    common + rest.take_while(|(a, b)| a == b).count()
}
