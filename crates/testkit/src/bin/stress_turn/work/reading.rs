//! Reads keys and ranges. Compares each result with the contents that the database had at the
//! beginning of the turn. A turn is the time between two runs of `db_stress`.

use fastrand::Rng;
use tailwater::{ColumnFamily, ReadOptions};

use super::{Work, count};
use crate::contents::Pair;
use crate::extra::{EXTRA_FAMILY, EXTRA_KEYS};
use crate::text;

/// Upper bound (exclusive) of the number of keys in a read.
const KEYS: usize = 100;

impl Work<'_> {
    /// Returns the column families of `db_stress`, that is, all except the extra one.
    pub(super) fn families(&self) -> Vec<ColumnFamily> {
        let mut families = self.db.column_families();
        families.retain(|family| family.name() != EXTRA_FAMILY);
        families
    }

    /// Makes a random read.
    pub(super) fn read(&self, rng: &mut Rng) -> Result<(), String> {
        let families = self.families();
        let family = &families[rng.usize(..families.len())];
        let pairs = self.reference.family(family.name());
        if pairs.is_empty() {
            return Ok(());
        }
        let start = rng.usize(..pairs.len());
        let end = pairs.len().min(start + rng.usize(1..KEYS));
        let wanted = &pairs[start..end];
        let options = ReadOptions::new()
            .with_snapshot(rng.bool().then(|| self.db.snapshot()))
            .with_fill_cache(rng.bool())
            .with_async_io(rng.bool())
            .with_optimize_multiget_for_io(rng.bool())
            .with_readahead_size(if rng.u8(..4) == 0 { 65536 } else { 0 });
        match rng.u8(..4) {
            0 => self.get(family, wanted, &options)?,
            1 => self.multi_get(family, wanted, &options)?,
            _ => self.scan(family, pairs, (start, end), options, rng)?,
        }
        count(&self.counts.read, wanted.len());
        Ok(())
    }

    /// Gets the keys of `wanted`. After each of them, also gets a key that does not exist.
    fn get(
        &self,
        family: &ColumnFamily,
        wanted: &[Pair],
        options: &ReadOptions,
    ) -> Result<(), String> {
        for (key, value) in wanted {
            let found = self.db.get_cf_opt(family, key, options).map_err(text("getting a key"))?;
            compare(family, key, found.as_deref(), Some(value))?;
            let absent = [key, &b"-"[..]].concat();
            let found =
                self.db.get_cf_opt(family, &absent, options).map_err(text("getting a key"))?;
            compare(family, &absent, found.as_deref(), None)?;
        }
        Ok(())
    }

    fn multi_get(
        &self,
        family: &ColumnFamily,
        wanted: &[Pair],
        options: &ReadOptions,
    ) -> Result<(), String> {
        let keys: Vec<&[u8]> = wanted.iter().map(|(key, _)| &**key).collect();
        let found = self.db.batched_multi_get_cf_opt(family, &keys, options);
        for ((key, value), found) in wanted.iter().zip(found) {
            let found = found.map_err(text("getting keys"))?;
            compare(family, key, found.as_deref(), Some(value))?;
        }
        Ok(())
    }

    /// Scans a range, forward or backward.
    fn scan(
        &self,
        family: &ColumnFamily,
        pairs: &[Pair],
        (start, end): (usize, usize),
        options: ReadOptions,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let doing = text("scanning a range");
        let bound = pairs.get(end).map_or(EXTRA_KEYS.to_vec(), |(key, _)| key.to_vec());
        let mut options = options.with_total_order_seek(true).with_iterate_upper_bound(bound);
        options.iterate_lower_bound = rng.bool().then(|| pairs[start].0.to_vec());
        let mut iterator = self.db.raw_iterator_cf_opt(family, &options).map_err(&doing)?;
        let forward = rng.bool();
        if forward {
            iterator.seek(&pairs[start].0).map_err(&doing)?
        } else {
            iterator.seek_to_last().map_err(&doing)?
        }
        for step in 0..end - start {
            let at = if forward { start + step } else { end - 1 - step };
            let (key, value) = &pairs[at];
            if iterator.key() != &**key {
                let (found, key) = (iterator.key().escape_ascii(), key.escape_ascii());
                let name = family.name();
                return Err(format!("{name}: an iterator is on '{found}', not on '{key}'"));
            }
            compare(family, key, Some(iterator.value()), Some(value))?;
            if forward {
                iterator.next().map_err(&doing)?
            } else {
                iterator.prev().map_err(&doing)?
            }
        }
        let is_at_end = forward || options.iterate_lower_bound.is_some();
        match iterator.item().filter(|_| is_at_end) {
            Some((key, _)) => {
                Err(format!("{}: an iterator shows '{}'", family.name(), key.escape_ascii()))
            }
            None => Ok(()),
        }
    }
}

fn compare(
    family: &ColumnFamily,
    key: &[u8],
    found: Option<&[u8]>,
    wanted: Option<&[u8]>,
) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let shown = |value: Option<&[u8]>| {
        value.map_or_else(|| "nothing".to_owned(), |value| value.escape_ascii().to_string())
    };
    let (found, wanted) = (shown(found), shown(wanted));
    let key = key.escape_ascii();
    Err(format!("{}: key {key} reads as {found}, not {wanted}", family.name()))
}
