//! Reads keys and ranges. Compares each result with the contents that the database had at the
//! beginning of the turn. A turn is the time between two runs of `db_stress`.

use std::time::Duration;

use fastrand::Rng;
use tailwater::{ColumnFamily, DbIterator, ReadOptions};

use super::{Work, count};
use crate::contents::Pair;
use crate::extra::{EXTRA_FAMILY, EXTRA_KEYS};
use crate::text;

/// Upper bound (exclusive) of the number of keys in a read.
const KEYS: usize = 100;
/// Upper bound (exclusive) of the number of keys in a long scan, which may see flushes and
/// compactions.
const MANY_KEYS: usize = 3000;
/// Pause of a long scan after every [`KEYS`] keys, and interval at which a paused range looks for a
/// newer super version.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum duration of the pause of a range, in units of [`PAUSE`].
const PAUSES: u32 = 10;

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
        let kind = rng.u8(..8);
        let most = if kind == 7 { MANY_KEYS } else { KEYS };
        let end = pairs.len().min(start + rng.usize(1..most));
        let wanted = &pairs[start..end];
        let options = ReadOptions::new()
            .with_snapshot(rng.bool().then(|| self.db.snapshot()))
            .with_auto_refresh_iterator_with_snapshot(rng.bool())
            .with_fill_cache(rng.bool())
            .with_async_io(rng.bool())
            .with_optimize_multiget_for_io(rng.bool())
            .with_readahead_size(if rng.u8(..4) == 0 { 65536 } else { 0 });
        match kind {
            0 | 1 => self.get(family, wanted, &options)?,
            2 | 3 => self.multi_get(family, wanted, &options)?,
            4 => self.range(family, wanted, &options, rng)?,
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

    /// Takes the entries of the range from the first to the last key of `wanted`, each from the
    /// front or from the back. Some ranges pause before a random entry until they are due for a
    /// refresh. Ranges do not show whether they have refreshed themselves, so only the entries are
    /// checked.
    fn range(
        &self,
        family: &ColumnFamily,
        wanted: &[Pair],
        options: &ReadOptions,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let [first, last] = [0, wanted.len() - 1].map(|at| &*wanted[at].0);
        let mut entries = self.db.range_cf_opt(family, first..=last, options);
        let mut left = wanted.iter();
        let pause_at = (rng.u8(..4) == 0).then(|| rng.usize(1..=wanted.len()));
        loop {
            if pause_at == Some(left.len()) {
                let is_due = self.await_super_version(family)? && refreshes(options);
                count(&self.counts.due_ranges, usize::from(is_due));
            }
            let from_front = rng.bool();
            let wanted = if from_front { left.next() } else { left.next_back() };
            let found = if from_front { entries.next() } else { entries.next_back() };
            let found = found.transpose().map_err(text("reading a range"))?;
            let found_key = found.as_ref().map(|(key, _)| &**key);
            if found_key != wanted.map(|(key, _)| &**key) {
                let shown = |key: Option<&[u8]>| key.map(|key| key.escape_ascii().to_string());
                let (found, wanted) = (shown(found_key), shown(wanted.map(|(key, _)| &**key)));
                return Err(format!("{}: a range yields {found:?}, not {wanted:?}", family.name()));
            }
            let Some((key, value)) = wanted else { return Ok(()) };
            compare(family, key, found.as_ref().map(|(_, value)| &**value), Some(value))?;
        }
    }

    /// Scans a range, forward or backward. Checks that a refreshing iterator refreshes itself if it
    /// is due for that after a pause.
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
        count(&self.counts.refreshing, usize::from(refreshes(&options)));
        let first_version = super_version(&iterator);
        let mut least_version = None;
        for step in 0..end - start {
            if step % KEYS == KEYS - 1 {
                std::thread::sleep(PAUSE);
                if refreshes(&options) {
                    // A super version becomes visible shortly before its number does, by which
                    // iterators notice it. An iterator may therefore not notice the current super
                    // version at its next step, but it notices the one before.
                    let current = self.current_super_version(family)?;
                    least_version = current.and_then(|current| current.checked_sub(1));
                }
            }
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
        let version = super_version(&iterator);
        if version < least_version {
            let name = family.name();
            return Err(format!(
                "{name}: an iterator reads super version {version:?}, and did not refresh itself \
                 to {least_version:?}"
            ));
        }
        count(&self.counts.refreshed, usize::from(version != first_version));
        let is_at_end = forward || options.iterate_lower_bound.is_some();
        match iterator.item().filter(|_| is_at_end) {
            Some((key, _)) => {
                Err(format!("{}: an iterator shows '{}'", family.name(), key.escape_ascii()))
            }
            None => Ok(()),
        }
    }

    /// Waits until a column family has a newer super version, for at most [`PAUSES`] pauses.
    /// Returns whether it has one.
    fn await_super_version(&self, family: &ColumnFamily) -> Result<bool, String> {
        let first = self.current_super_version(family)?;
        for _ in 0..PAUSES {
            std::thread::sleep(PAUSE);
            if self.current_super_version(family)? != first {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the number of the current super version of a column family.
    fn current_super_version(&self, family: &ColumnFamily) -> Result<Option<u64>, String> {
        let name = "rocksdb.current-super-version-number";
        self.db.property_int_value_cf(family, name).map_err(text("reading a property"))
    }
}

/// Whether iterators and ranges with these options refresh themselves.
fn refreshes(options: &ReadOptions) -> bool {
    options.auto_refresh_iterator_with_snapshot && options.snapshot.is_some()
}

/// Returns the number of the super version that an iterator reads.
fn super_version(iterator: &DbIterator) -> Option<u64> {
    let number = iterator.property("rocksdb.iterator.super-version-number")?;
    std::str::from_utf8(&number).ok()?.parse().ok()
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
