//! Writes that leave the value of every key unchanged.

use fastrand::Rng;
use tailwater::{ColumnFamily, WriteBatch};

use super::{Work, count};
use crate::contents::Pair;
use crate::extra::EXTRA_KEYS;
use crate::text;

/// Upper bound (exclusive) of the number of keys in a batch.
const BATCH: usize = 60;

impl Work<'_> {
    /// Makes a random write.
    pub(super) fn write(&self, thread: u8, rng: &mut Rng) -> Result<(), String> {
        let families = self.families();
        let family = &families[rng.usize(..families.len())];
        match rng.u8(..10) {
            0 | 1 => self.write_extra_keys(family, thread, rng),
            2 if !self.arguments.no_delete_range => self.delete_nothing(family, rng),
            _ => self.rewrite(family, rng),
        }
    }

    /// Writes some keys again with their current values.
    fn rewrite(&self, family: &ColumnFamily, rng: &mut Rng) -> Result<(), String> {
        let pairs = self.reference.family(family.name());
        if pairs.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::new();
        let mut written = 0;
        let (start, in_order) = (rng.usize(..pairs.len()), rng.bool());
        for step in 0..rng.usize(1..BATCH) {
            let at = if in_order { (start + step) % pairs.len() } else { rng.usize(..pairs.len()) };
            self.rewrite_pair(family, &pairs[at], &mut batch, rng).map_err(|e| e.to_string())?;
            written += 1;
        }
        self.db.write_opt(&mut batch, &self.write_options(rng)).map_err(text("rewriting keys"))?;
        count(&self.counts.rewritten, written);
        Ok(())
    }

    /// Adds a write to `batch` that gives a key the value that it already has.
    ///
    /// db_stress puts some keys once and then deletes them with a single deletion. Such a key must
    /// be deleted before it is put again, and with a single deletion. An ordinary deletion would
    /// not suffice. The new put hides that deletion, so a compaction may drop the deletion. The
    /// next single deletion by db_stress would then delete only the new put, and expose the old
    /// put.
    fn rewrite_pair(
        &self,
        family: &ColumnFamily,
        (key, value): &Pair,
        batch: &mut WriteBatch,
        rng: &mut Rng,
    ) -> tailwater_format::Result<()> {
        let id = family.id();
        let may_overwrite = self.keys.may_overwrite(key);
        if !may_overwrite {
            batch.single_delete_cf(id, key)?;
        } else if rng.u8(..8) == 0 {
            batch.delete_cf(id, key)?;
        }
        if let Some(entity) = self.keys.entity(value) {
            return batch.put_entity_cf(id, key, &entity);
        }
        let merges = family.options().merge_operator.id().is_some();
        match rng.u8(..4) {
            0 if merges && may_overwrite => batch.merge_cf(id, key, value),
            _ => batch.put_cf(id, key, value),
        }
    }

    /// Puts or deletes some extra keys. With `--settled`, the same batch puts and then deletes
    /// them.
    fn write_extra_keys(
        &self,
        family: &ColumnFamily,
        thread: u8,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let doing = text("writing extra keys");
        let numbers: Vec<u16> = (0..rng.u8(1..10)).map(|_| rng.u16(..500)).collect();
        let put_now = self.arguments.settled || rng.bool();
        let delete_now = self.arguments.settled || !put_now;
        let options = self.write_options(rng);
        let mut batch = WriteBatch::new();
        for number in &numbers {
            let key = [&EXTRA_KEYS[..], &[thread], &number.to_be_bytes()].concat();
            let length = rng.usize(..200);
            let id = family.id();
            if put_now {
                batch.put_cf(id, &key, vec![thread; length]).map_err(|e| e.to_string())?;
            }
            if delete_now {
                batch.delete_cf(id, &key).map_err(|e| e.to_string())?;
            }
        }
        self.db.write_opt(&mut batch, &options).map_err(&doing)?;
        count(&self.counts.extra, numbers.len());
        Ok(())
    }

    /// Writes a range tombstone for a range between two consecutive keys, which contains no key.
    fn delete_nothing(&self, family: &ColumnFamily, rng: &mut Rng) -> Result<(), String> {
        let pairs = self.reference.family(family.name());
        let Some(last) = pairs.len().checked_sub(1).filter(|last| *last > 0) else { return Ok(()) };
        let at = rng.usize(..last);
        let begin = [&pairs[at].0[..], &[0]].concat();
        let end = &pairs[at + 1].0;
        let options = self.write_options(rng);
        self.db
            .delete_range_cf_opt(family, &begin, end, &options)
            .map_err(text("deleting a range"))?;
        count(&self.counts.range_tombstones, 1);
        Ok(())
    }
}
