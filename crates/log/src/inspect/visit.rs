//! Visits the batches of a partition.

use tailwater_format::message::batch::{Header, Message, Messages};

use super::changes::Looks;
use super::verify::{Finding, Severity};
use super::{PartitionFiles, Place, hole};
use crate::segment::{Scanner, Segment};
use crate::{Error, ErrorKind, Result};

impl PartitionFiles<'_> {
    /// Calls `visit` with each batch in order, and stops when `visit` returns false. Begins with
    /// the batch that contains the offset `from`. Batches before it are not verified.
    ///
    /// If another process removes or replaces segments meanwhile, the visit goes on with the files
    /// that there are then.
    ///
    /// # Errors
    /// Corruption, with file and offset; not found, if another process deletes the partition
    /// meanwhile; busy, if it purges the partition, or changes the files whenever they are read;
    /// I/O errors. An incomplete batch at the end of the last segment ([`Severity::TornTail`]) is
    /// not an error but ends the visit.
    pub fn visit(
        &self,
        from: u64,
        mut visit: impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
    ) -> Result<()> {
        let mut looks = Looks::default();
        let mut newer = None;
        let mut due = from;
        loop {
            let current = newer.as_ref().unwrap_or(self);
            match current.visit_listed(&mut due, &mut visit) {
                Ok(()) => return Ok(()),
                Err(error) => looks.failed(error)?,
            }
            let listed = self.list_again()?;
            if listed.incarnation != self.incarnation {
                let message = format!("{} was purged while it was read", self.id);
                return Err(Error::new(ErrorKind::Busy, message));
            }
            newer = Some(listed);
        }
    }

    /// Visits the batches of the listed segments that end beyond the offset `due`, which becomes
    /// the offset after the last visited batch.
    fn visit_listed(
        &self,
        due: &mut u64,
        visit: &mut impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
    ) -> Result<()> {
        let first = self.segments.partition_point(|segment| segment.base_offset() <= *due);
        for (index, segment) in self.segments.iter().enumerate().skip(first.saturating_sub(1)) {
            let next = self.segments.get(index + 1).map(|next| next.base_offset());
            if !self.visit_segment(segment, next, due, visit)? {
                break;
            }
        }
        Ok(())
    }

    /// Like [`Self::visit_listed`], for one segment. The next segment begins at the offset `next`,
    /// which is `None` for the last segment. Returns whether `visit` wants more batches.
    fn visit_segment(
        &self,
        segment: &Segment,
        next: Option<u64>,
        due: &mut u64,
        visit: &mut impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
    ) -> Result<bool> {
        let (mut scanner, mut place) = self.scan_near(segment, *due)?;
        loop {
            match visit_next(&mut scanner, segment, &mut place, due, visit) {
                Ok(Step::Next) => {}
                Ok(Step::Stop) => return Ok(false),
                Ok(Step::End) => break,
                Err(error) => match self.judge(segment, next.is_none(), place, error) {
                    Ok(again) => scanner = again,
                    Err(Finding { severity: Severity::TornTail, .. }) => break,
                    Err(Finding { error, .. }) => return Err(error),
                },
            }
        }
        match next.filter(|next| *next != place.offset) {
            Some(next) => Err(hole(segment, place.offset, next)),
            None => Ok(true),
        }
    }

    /// Returns a scanner at the last indexed batch whose base offset is at most `from`, or at the
    /// beginning of the segment if there is none. A missing index is not rebuilt.
    fn scan_near(&self, segment: &Segment, from: u64) -> Result<(Scanner, Place)> {
        let files = &self.log.segment_files;
        let mut access = files.access_now();
        let entries = segment.read_index(files).unwrap_or_default();
        let end = entries.partition_point(|entry| entry.offset <= from);
        if let Some(entry) = end.checked_sub(1).and_then(|last| entries.get(last)) {
            let mut scanner = segment.scan(&mut access, entry.position)?;
            if scanner.is_at(entry) {
                return Ok((scanner, Place { position: entry.position, offset: entry.offset }));
            }
        }
        let scanner = segment.scan(&mut access, 0)?;
        Ok((scanner, Place::first(segment)))
    }
}

/// The result of [`visit_next`].
enum Step {
    /// The batch was visited or skipped.
    Next,
    /// The visitor wants no more batches.
    Stop,
    /// The segment has no more batches.
    End,
}

/// Visits the next batch of a segment, or skips it if it ends at or before the offset `due`, which
/// becomes the offset after the visited batch.
///
/// # Errors
/// The errors of [`Scanner::read_verified`] and [`Place::check`].
fn visit_next(
    scanner: &mut Scanner,
    segment: &Segment,
    place: &mut Place,
    due: &mut u64,
    visit: &mut impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
) -> Result<Step> {
    let Some((position, header)) = scanner.peek()? else { return Ok(Step::End) };
    let after = Place::after(position, &header);
    if header.base_offset == place.offset && after.offset <= *due {
        scanner.skip();
        *place = after;
        return Ok(Step::Next);
    }
    let Some(scanned) = scanner.read_verified()? else { return Ok(Step::End) };
    place.check(segment, position, &header)?;
    (*place, *due) = (after, after.offset);
    let is_more_wanted = visit(&header, &mut Messages::new(scanned.messages));
    Ok(if is_more_wanted { Step::Next } else { Step::Stop })
}
