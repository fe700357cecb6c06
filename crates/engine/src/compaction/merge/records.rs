//! Processing of each record by its type.

use std::sync::Arc;

use tailwater_format::key::{self, Sequence, ValueType, pack_trailer};
use tailwater_format::timed_value;

use super::snapshots::Stripe;
use super::user_code::Filtered;
use super::{Merge, Taken, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::merge_operator::FamilyMergeOperator;

impl Merge {
    /// Processes the source's current record, and records of the same key that must be processed
    /// together with it.
    pub(super) fn take(&mut self) -> Result<Taken> {
        (self.sequence, self.value_type) = self.source.version()?;
        self.value = Value::Source;
        let is_first = !self.has_key || !self.is_same_key();
        if is_first || self.rules.comparator.equates_different_bytes() {
            self.key.clear();
            self.key.extend_from_slice(self.source.key());
        }
        if is_first {
            self.has_key = true;
            self.newer_stripe = None;
            self.has_zeroed = false;
            (self.is_after_single, self.keeps_deletion) = (false, false);
        }
        if is_first && self.rules.filter.is_some() && self.filter_record()? == Filtered::Skipped {
            return Ok(Taken::Passed);
        }
        let stripe = self.rules.snapshots.stripe(self.sequence);
        let newer_stripe = self.newer_stripe.replace(stripe.newest);
        let is_after_single = std::mem::take(&mut self.is_after_single);
        match self.value_type {
            ValueType::SingleDeletion => self.take_single_deletion(stripe),
            ValueType::Deletion if std::mem::take(&mut self.keeps_deletion) => {
                self.take_deletion(stripe)
            }
            _ if newer_stripe.is_some_and(|newer| newer <= stripe.newest) => {
                self.dropped.hidden += 1;
                Ok(Taken::Dropped)
            }
            ValueType::Deletion => self.take_deletion(stripe),
            value_type => {
                self.keeps_deletion = is_after_single;
                match value_type {
                    ValueType::ValuePreferredSequence => self.take_timed_value(stripe),
                    ValueType::Merge => self.take_operands(stripe),
                    _ => Ok(self.take_visible(stripe)),
                }
            }
        }
    }

    /// Processes a record that no newer version hides.
    fn take_visible(&mut self, stripe: Stripe) -> Taken {
        if self.is_covered(self.sequence, self.value_type, stripe) {
            self.dropped.covered += 1;
            return Taken::Dropped;
        }
        Taken::Kept
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
        // No deeper level has the key, but some snapshot does not see the deletion. The versions
        // that the deletion hides within its stripe are dropped. If an older stripe has another
        // version of the key, that version is kept for a snapshot. The deletion must then be kept,
        // too, to hide it from newer reads.
        self.source.next()?;
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
    /// a newer version of the key hides it; otherwise the write could become visible. If the
    /// version just older than that write is a plain deletion, the plain deletion is kept, too.
    /// After the single deletion and the write are dropped, only the plain deletion hides older
    /// versions in deeper levels.
    fn take_single_deletion(&mut self, stripe: Stripe) -> Result<Taken> {
        self.value = Value::Empty;
        self.source.next()?;
        if !self.is_same_key() {
            self.has_key = false;
            if self.has_zeroed || (self.everyone_sees() && self.is_oldest()) {
                self.dropped.obsolete += 1;
                return Ok(Taken::Passed);
            }
            return Ok(Taken::KeptBehind);
        }
        self.pass_starts();
        let (_, below) = self.source.version()?;
        if self.has_zeroed {
            // All reads see a version of the key that is newer than the single deletion. So neither
            // the single deletion nor the next older version is visible to a read.
            return self.drop_pair();
        }
        if !self.is_in(stripe)? {
            self.is_after_single = true;
            return Ok(Taken::KeptBehind);
        }
        self.keeps_deletion = true;
        match below {
            ValueType::SingleDeletion => {}
            ValueType::Deletion if self.rules.enforces_single_deletions => {
                return Err(self.contract_broken());
            }
            ValueType::Deletion => {}
            _ => return self.drop_pair(),
        }
        // Only the single deletion is dropped. The next older version is a deletion, too, and hides
        // the same versions.
        self.dropped.obsolete += 1;
        Ok(Taken::Passed)
    }

    fn drop_pair(&mut self) -> Result<Taken> {
        self.dropped.obsolete += 1;
        self.dropped.hidden += 1;
        self.source.next()?;
        Ok(Taken::Passed)
    }

    #[cold]
    fn contract_broken(&self) -> Error {
        let key = self.user_key().escape_ascii();
        let message = format!(
            "key '{key}' has a single deletion above a deletion, but single deletions are for keys \
             that were put once; enforce_single_del_contracts=false lets compactions continue"
        );
        let error = Error::new(ErrorKind::Corruption, message);
        match self.source.path() {
            Some(path) => error.in_file(path),
            None => error,
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
            let key = self.user_key().escape_ascii();
            let message = format!("key '{key}' has a timed value of less than 8 bytes");
            return Err(Error::new(ErrorKind::Corruption, message));
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
        if matches!(*self.operator, FamilyMergeOperator::None) {
            let key = self.user_key().escape_ascii();
            return Err(Error::invalid_argument(format!(
                "key '{key}' has merge operands, but its column family was opened without a merge \
                 operator"
            )));
        }
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
            return Ok(self.leave_unfolded());
        };
        let is_covered = self.is_covered(sequence, value_type, stripe);
        let value_type = if is_covered { ValueType::RangeDeletion } else { value_type };
        self.fold_over_base(operator, value_type)?;
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
            return Ok(self.leave_unfolded());
        };
        let user_key = key::user_key(&self.key);
        if is_at_oldest && self.rules.is_bottommost {
            self.operands.fold_over(operator, user_key, None)?;
            self.value_type = ValueType::Value;
        } else if self.operands.len() > 1 && self.operands.fold_together(operator, user_key) {
            // A merge operand does not hide older versions, so the next older version is processed
            // as if it were the newest.
            self.has_key = false;
            self.value_type = ValueType::Merge;
        } else {
            return Ok(self.leave_unfolded());
        }
        self.dropped.folded += self.operands.len() as u64 - 1;
        self.sequence = self.operands.sequence(0);
        self.value = Value::Folded;
        Ok(Taken::KeptBehind)
    }

    /// Leaves the operands unmerged, so that each is written as it is. The next older version of
    /// the key is then processed as if it were the newest.
    fn leave_unfolded(&mut self) -> Taken {
        self.has_key = false;
        Taken::Operands
    }
}
