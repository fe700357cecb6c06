//! Processing of each record by its type.

use std::fmt;
use std::sync::Arc;

use tailwater_format::key::{self, ParsedKey, Sequence, ValueType, pack_trailer};
use tailwater_format::timed_value;

use super::operands::Folding;
use super::snapshots::Stripe;
use super::user_code::Filtered;
use super::{AfterSingle, Merge, Taken, Value};
use crate::contracts::Contract;
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::FamilyMergeOperator;

impl Merge {
    /// Processes the source's current record, and records of the same key that must be processed
    /// together with it.
    pub(super) fn take(&mut self) -> Result<Taken> {
        let internal_key = self.source.key();
        let ParsedKey { user_key, sequence, value_type } =
            ParsedKey::parse(internal_key).map_err(|error| self.source.damaged(error))?;
        (self.sequence, self.value_type) = (sequence, value_type);
        self.value = Value::Source;
        let comparator = &self.rules.comparator;
        let is_first =
            !self.has_key || comparator.compare(user_key, key::user_key(&self.key)).is_ne();
        if is_first || comparator.equates_different_bytes() {
            self.key.clear();
            self.key.extend_from_slice(internal_key);
        }
        if is_first {
            self.has_key = true;
            self.newer_stripe = None;
            self.has_zeroed = false;
            self.after_single = AfterSingle::Nothing;
        }
        if is_first && self.rules.filter.is_some() && self.filter_record()? == Filtered::Skipped {
            return Ok(Taken::Passed);
        }
        let stripe = self.rules.snapshots.stripe(self.sequence);
        let newer_stripe = self.newer_stripe.replace(stripe.newest);
        let is_hidden = newer_stripe.is_some_and(|newer| newer <= stripe.newest);
        let after_single = std::mem::take(&mut self.after_single);
        match (self.value_type, after_single) {
            (ValueType::SingleDeletion, _) if self.rules.is_flush => {
                // The write that it deletes is kept, too, whatever their stripes.
                self.newer_stripe = None;
                self.after_single = AfterSingle::Kept;
                Ok(Taken::Kept)
            }
            (ValueType::SingleDeletion, _) => self.take_single_deletion(stripe),
            (ValueType::Deletion, AfterSingle::PairKept | AfterSingle::Dropped) => {
                self.take_deletion(stripe)
            }
            (ValueType::Deletion, _) if !is_hidden => self.take_deletion(stripe),
            (ValueType::Deletion, _) => Ok(self.drop_hidden()),
            (value_type, AfterSingle::PairKept)
                if is_hidden && !self.is_covered(self.sequence, value_type, stripe) =>
            {
                self.replace_by_deletion(stripe)
            }
            _ if is_hidden => Ok(self.drop_hidden()),
            (value_type, _) => {
                if after_single == AfterSingle::Kept {
                    self.after_single = AfterSingle::PairKept;
                }
                match value_type {
                    ValueType::Merge if self.rules.is_flush => Ok(self.take_operand(stripe)),
                    _ if self.rules.is_flush => Ok(self.take_visible(stripe)),
                    ValueType::ValuePreferredSequence => self.take_timed_value(stripe),
                    ValueType::Merge => self.take_operands(stripe),
                    _ => Ok(self.take_visible(stripe)),
                }
            }
        }
    }

    fn drop_hidden(&mut self) -> Taken {
        self.dropped.hidden += 1;
        Taken::Dropped
    }

    /// Processes a record that no newer version hides.
    fn take_visible(&mut self, stripe: Stripe) -> Taken {
        if self.is_covered(self.sequence, self.value_type, stripe) {
            self.dropped.covered += 1;
            return Taken::Dropped;
        }
        Taken::Kept
    }

    /// Processes a merge operand that is not merged with others.
    fn take_operand(&mut self, stripe: Stripe) -> Taken {
        let taken = self.take_visible(stripe);
        if taken == Taken::Kept {
            // The older versions are needed to read the key.
            self.newer_stripe = None;
        }
        taken
    }

    /// Whether a range tombstone covers the version of the current key with this sequence number
    /// and type. `stripe` is the stripe of this version. Range tombstones in other stripes do not
    /// count.
    #[inline]
    fn is_covered(&mut self, sequence: Sequence, value_type: ValueType, stripe: Stripe) -> bool {
        let user_key = key::user_key(&self.key);
        self.cover.covers(user_key, pack_trailer(sequence, value_type as u8), stripe.newest)
    }

    /// Whether no deeper level can have a version of the key.
    fn is_oldest(&mut self) -> bool {
        let user_key = key::user_key(&self.key);
        self.rules.is_bottommost || self.deeper.lack(user_key)
    }

    fn take_deletion(&mut self, stripe: Stripe) -> Result<Taken> {
        if self.everyone_sees() && self.is_oldest() {
            self.dropped.obsolete += 1;
            return Ok(Taken::Dropped);
        }
        if !self.rules.is_bottommost {
            return Ok(self.take_visible(stripe));
        }
        self.source.next()?;
        self.take_deletion_at_bottom(stripe)
    }

    /// Processes a deletion of which no deeper level has the key, but which some snapshot does not
    /// see. The source is behind the deletion. The versions that the deletion hides within its
    /// stripe are dropped. If an older stripe has another version of the key, that version is kept
    /// for a snapshot. The deletion must then be kept, too, to hide it from newer reads.
    fn take_deletion_at_bottom(&mut self, stripe: Stripe) -> Result<Taken> {
        while self.is_same_key() && self.is_in(stripe)? {
            self.dropped.hidden += 1;
            self.source.next()?;
        }
        self.value = Value::Empty;
        if self.is_same_key() {
            return Ok(Taken::KeptBehind);
        }
        self.dropped.obsolete += 1;
        Ok(Taken::Passed)
    }

    /// Whether the sequence number of the source's record is above the lower bound of a stripe.
    #[inline]
    fn is_in(&self, stripe: Stripe) -> Result<bool> {
        let (sequence, _) = self.source.version()?;
        Ok(stripe.below.is_none_or(|below| sequence > below))
    }

    /// Processes a single deletion. The single deletion is dropped together with the write that it
    /// deletes, as soon as both are in one stripe. Until then the single deletion is kept, even if
    /// a newer version of the key hides it; otherwise the write could become visible.
    ///
    /// Single deletions are for keys that are put once. If the next older version is a deletion
    /// instead, only the single deletion is dropped, because the deletion hides the same versions.
    /// If it is a merge operand, the single deletion becomes a deletion, which hides what is below
    /// the operand, too.
    fn take_single_deletion(&mut self, stripe: Stripe) -> Result<Taken> {
        self.value = Value::Empty;
        self.source.next()?;
        self.pass_starts_of_key();
        if !self.is_same_key() {
            self.has_key = false;
            if self.has_zeroed || (self.everyone_sees() && self.is_oldest()) {
                self.dropped.obsolete += 1;
                return Ok(Taken::Passed);
            }
            return Ok(Taken::KeptBehind);
        }
        if self.has_zeroed {
            // All reads see a version of the key that is newer than the single deletion. So neither
            // the single deletion nor the next older version is visible to a read.
            self.dropped.obsolete += 1;
            self.dropped.hidden += 1;
            self.source.next()?;
            return Ok(Taken::Passed);
        }
        if !self.is_in(stripe)? {
            self.after_single = AfterSingle::Kept;
            return Ok(Taken::KeptBehind);
        }
        let (_, below) = self.source.version()?;
        match below {
            ValueType::Merge => {
                self.note_single_deletion("a single deletion above a merge operand");
                return self.become_deletion(stripe);
            }
            ValueType::Deletion => {
                self.note_single_deletion("a single deletion above a deletion");
            }
            // The next single deletion hides the same versions.
            ValueType::SingleDeletion => {}
            _ => {
                self.dropped.hidden += 1;
                self.source.next()?;
                if self.is_written_again(stripe)? {
                    // The key was put again without a deletion in between. The single deletion
                    // must hide the older writes, too.
                    self.note_single_deletion("a single deletion of a key that was written twice");
                    return self.become_deletion(stripe);
                }
            }
        }
        self.after_single = AfterSingle::Dropped;
        self.dropped.obsolete += 1;
        Ok(Taken::Passed)
    }

    /// Whether the source is on another write of the current key that no deletion deletes for the
    /// readers of `stripe`, the stripe of a single deletion above it.
    fn is_written_again(&mut self, stripe: Stripe) -> Result<bool> {
        if !self.is_same_key() {
            return Ok(false);
        }
        let (sequence, value_type) = self.source.version()?;
        let is_deletion = matches!(value_type, ValueType::Deletion | ValueType::SingleDeletion);
        Ok(!is_deletion && !self.is_covered(sequence, value_type, stripe))
    }

    /// Processes the current single deletion as a deletion. The source is behind it.
    fn become_deletion(&mut self, stripe: Stripe) -> Result<Taken> {
        self.value_type = ValueType::Deletion;
        self.value = Value::Empty;
        if self.everyone_sees() && self.is_oldest() {
            self.dropped.obsolete += 1;
            return Ok(Taken::Passed);
        }
        if self.rules.is_bottommost {
            return self.take_deletion_at_bottom(stripe);
        }
        Ok(Taken::KeptBehind)
    }

    /// Processes a hidden write below a kept single deletion and the write that this one deletes.
    /// No range tombstone covers the hidden write, so the key was put again without a deletion in
    /// between. The hidden write is replaced by a deletion, which hides older writes when the other
    /// two versions are dropped.
    fn replace_by_deletion(&mut self, stripe: Stripe) -> Result<Taken> {
        self.note_single_deletion("a single deletion of a key that was written twice");
        self.value_type = ValueType::Deletion;
        self.value = Value::Empty;
        self.take_deletion(stripe)
    }

    #[cold]
    fn note_single_deletion(&mut self, what: &str) {
        if self.rules.reports_single_deletions {
            self.violations.note(Contract::SingleDeletion, key::user_key(&self.key), what);
        }
    }

    /// Processes a timed value: a put whose value ends with a preferred sequence number.
    ///
    /// The preferred sequence number is usually lower than the record's own. The record takes the
    /// preferred number as soon as all snapshots see the record and no deeper level has the key.
    /// From then on, no older version exists below which the lower number could move the record. If
    /// the preferred number is not lower than the record's own, the record becomes a plain put.
    /// This happens if the record's own number was set to 0, or if its flush stored the write time
    /// in place of a sequence number.
    fn take_timed_value(&mut self, stripe: Stripe) -> Result<Taken> {
        let Some((_, preferred)) = timed_value::split(self.source.value()) else {
            return Err(self.damaged("a timed value of less than 8 bytes"));
        };
        let is_plain = preferred >= self.sequence;
        if !is_plain && (!self.everyone_sees() || !self.is_oldest()) {
            return Ok(self.take_visible(stripe));
        }
        if self.is_covered(self.sequence, self.value_type, stripe) {
            self.dropped.covered += 1;
            return Ok(Taken::Dropped);
        }
        if is_plain {
            self.value_type = ValueType::Value;
            self.value = Value::SourceUnpacked;
            return Ok(Taken::Kept);
        }
        let preferred_stripe = self.rules.snapshots.stripe(preferred);
        let would_be_covered = self.is_covered(preferred, ValueType::Value, preferred_stripe);
        // The cursor was queried with a sequence number out of order, so it must restart.
        self.cover.restart();
        if !would_be_covered {
            self.sequence = preferred;
            self.value_type = ValueType::Value;
            self.value = Value::SourceUnpacked;
        }
        Ok(Taken::Kept)
    }

    /// Processes the merge operands of the current key in a stripe.
    fn take_operands(&mut self, stripe: Stripe) -> Result<Taken> {
        self.operands.clear();
        let mut is_at_oldest = true;
        while self.is_same_key() {
            let (sequence, value_type) = self.source.version()?;
            if !self.is_in(stripe)? {
                is_at_oldest = false;
                break;
            }
            if value_type != ValueType::Merge {
                self.pass_starts();
                return self.take_base(sequence, value_type, stripe);
            }
            if self.filter_operand(sequence)? == Filtered::Skipped {
                self.has_key = false;
                return Ok(Taken::Passed);
            }
            self.check_cancelled()?;
            self.source.next()?;
        }
        self.pass_starts();
        self.fold_operands(is_at_oldest)
    }

    /// Adds the source's current operand to `operands`, unless a range tombstone covers the
    /// operand. With `is_changed`, adds the compaction filter's replacement instead of the operand.
    pub(super) fn push_operand(&mut self, sequence: Sequence, is_changed: bool) {
        let stripe = self.rules.snapshots.stripe(sequence);
        if self.is_covered(sequence, ValueType::Merge, stripe) {
            self.dropped.covered += 1;
            return;
        }
        let operand = if is_changed { &self.changed[..] } else { self.source.value() };
        self.operands.push(sequence, operand);
    }

    /// Merges the operands over the base record: the next older version of the key, which is not an
    /// operand.
    fn take_base(
        &mut self,
        sequence: Sequence,
        value_type: ValueType,
        stripe: Stripe,
    ) -> Result<Taken> {
        if self.operands.len() == 0 {
            // No operand is left: each was covered by a range tombstone or removed by the
            // compaction filter. So the base record is processed next, as the newest version of the
            // key.
            self.has_key = false;
            return Ok(Taken::Passed);
        }
        let operator = Arc::clone(&self.operator);
        let FamilyMergeOperator::Known(operator) = &*operator else {
            return Ok(self.leave_above_base(no_operator(&operator)));
        };
        let is_covered = self.is_covered(sequence, value_type, stripe);
        let value_type = if is_covered { ValueType::RangeDeletion } else { value_type };
        match self.fold_over_base(operator, value_type)? {
            Folding::Done => {}
            failed => return Ok(self.leave_above_base(failed)),
        }
        self.dropped.folded += self.operands.len() as u64;
        self.sequence = self.operands.sequence(0);
        self.value = Value::Folded;
        self.source.next()?;
        Ok(Taken::KeptBehind)
    }

    /// Merges the operands of a key. Their stripe has no version of the key that is older than the
    /// operands. `is_at_oldest` says whether the inputs have no older version in any other stripe,
    /// either.
    fn fold_operands(&mut self, is_at_oldest: bool) -> Result<Taken> {
        if self.operands.len() == 0 {
            self.has_key = false;
            return Ok(Taken::Passed);
        }
        let operator = Arc::clone(&self.operator);
        let FamilyMergeOperator::Known(operator) = &*operator else {
            return Ok(self.leave_unfolded(no_operator(&operator)));
        };
        let user_key = key::user_key(&self.key);
        let has_all = is_at_oldest && self.rules.is_bottommost;
        let folding = match self.operands.len() {
            _ if has_all => self.operands.fold_over(operator, user_key, None),
            1 => Folding::Declined,
            _ => self.operands.fold_together(operator, user_key),
        };
        if folding != Folding::Done {
            return Ok(self.leave_unfolded(folding));
        }
        self.value_type = if has_all { ValueType::Value } else { ValueType::Merge };
        // A merge operand does not hide older versions, so the next older version is processed as
        // if it were the newest.
        self.has_key = has_all;
        self.dropped.folded += self.operands.len() as u64 - 1;
        self.sequence = self.operands.sequence(0);
        self.value = Value::Folded;
        Ok(Taken::KeptBehind)
    }

    /// Leaves the operands unmerged above the base record, which the source is on. It stays the
    /// version below them: they do not hide it, and the compaction filter is not called for it.
    fn leave_above_base(&mut self, why: Folding) -> Taken {
        let taken = self.leave_unfolded(why);
        self.has_key = true;
        self.newer_stripe = None;
        taken
    }

    /// Leaves the operands unmerged, so that each is written as it is. The next older version of
    /// the key is then processed as if it were the newest.
    fn leave_unfolded(&mut self, why: Folding) -> Taken {
        if let Folding::Failed(why) = why {
            self.violations.note(Contract::MergeOperator, key::user_key(&self.key), why);
        }
        self.has_key = false;
        Taken::Operands
    }

    /// Returns the error for a record that does not decode. It names the table.
    #[cold]
    pub(super) fn damaged(&self, what: impl fmt::Display) -> Error {
        let message = format!("key '{}': {what}", self.user_key().escape_ascii());
        self.source.named(Error::new(ErrorKind::Corruption, message))
    }
}

/// Returns why the operands of a column family without a known operator are not merged.
fn no_operator(operator: &FamilyMergeOperator) -> Folding {
    match operator {
        FamilyMergeOperator::None => {
            Folding::Failed("the column family was opened without a merge operator".to_owned())
        }
        // The LOG has named the operator when the database was opened.
        _ => Folding::Declined,
    }
}
