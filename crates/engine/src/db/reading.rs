//! Gets, multi-gets and iterators.

use tailwater_format::key::Sequence;
use tailwater_io::Purpose;

use super::{Access, Db, foreign};
use crate::column_family::ColumnFamily;
use crate::error::{Error, Result};
use crate::iterator::{DbIterator, Origin};
use crate::read::{
    self, CopiedValue, FamilyKeys, MultiGetProfile, ReadOptions, Snapshot, ValueBuffer,
};
use crate::stats::slow_reads::{Operation, Request, SearchCounts};
use crate::table::{BatchPinned, LastPinned, PinnedValue, ReadProfile, Sink};

impl Db {
    /// Returns a copy of a key's value; `None` if the key has no value.
    ///
    /// # Errors
    /// Errors from reading tables and blob files, and of the merge operator; invalid argument, for
    /// a column family or a snapshot that was not obtained from this `Db` or a clone of it.
    #[inline]
    pub fn get_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>> {
        self.get_copy(family, key.as_ref(), options)
    }

    fn get_copy(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_to_sink(family, key, options, &mut value)?.then_some(value))
    }

    /// Replaces the content of `value` with a copy of a key's value. Returns whether the key has a
    /// value; if not, `value` is unspecified.
    ///
    /// A value in a memtable is copied without a lock, and without an allocation unless `value`
    /// grows.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_into_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_to_sink(family, key.as_ref(), options, value)
    }

    /// Returns a key's value, pinned in memory rather than copied; `None` if the key has no value.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_pinned_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        self.get_pin(family, key.as_ref(), options)
    }

    fn get_pin(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let mut value = None;
        self.get_to_sink(family, key, options, &mut value)?;
        Ok(value)
    }

    #[inline(always)]
    fn get_to_sink<S: Sink>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
        sink: &mut S,
    ) -> Result<bool> {
        self.check_read(family, options)?;
        if self.inner.shared.slow_reads.is_on() {
            return self.attributed_get(family, key, options, sink);
        }
        self.get_from_sources(family, key, options, sink, None)
    }

    #[inline(never)]
    fn attributed_get<S: Sink>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
        sink: &mut S,
    ) -> Result<bool> {
        let slow_reads = &self.inner.shared.slow_reads;
        let (reading, mut searched) = (slow_reads.begin(), SearchCounts::default());
        let found = self.get_from_sources(family, key, options, sink, Some(&mut searched));
        if let Some(reading) = reading {
            let (operation, family) = (Operation::Get, family.name());
            let request = || Request { operation, family, key: Some(key), keys: 1, searched };
            slow_reads.end(reading, request);
        }
        found
    }

    #[inline(always)]
    fn get_from_sources<S: Sink>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
        sink: &mut S,
        searched: Option<&mut SearchCounts>,
    ) -> Result<bool> {
        let (current, snapshot) = (family.current(), || self.read_sequence(options));
        let statistics = self.inner.shared.statistics.as_deref();
        read::get(current, key, snapshot, &profile(options), sink, statistics, searched)
    }

    /// Returns the values of several keys of one column family, as of one point in time, in the
    /// order of the keys.
    ///
    /// # Errors
    /// For each key, the errors of [`Db::get_cf_opt`].
    pub fn batched_multi_get_cf_opt(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        let mut values: Vec<Result<Option<PinnedValue>>> = keys.iter().map(|_| Ok(None)).collect();
        let profile = self.multi_get_profile(family.name(), options);
        self.multi_get_pinned(family, keys, options, &profile, |at, value| values[at] = value);
        values
    }

    /// Like [`Db::batched_multi_get_cf_opt`], but passes the values to `receive` instead of
    /// collecting them: each with the index of its key in `keys`, in no particular order.
    ///
    /// # Errors
    /// For each key, the errors of [`Db::get_cf_opt`].
    pub fn batched_multi_get_with_cf_opt(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
        receive: impl FnMut(usize, Result<Option<PinnedValue>>),
    ) {
        let profile = MultiGetProfile {
            receiver_is_foreign: true,
            ..self.multi_get_profile(family.name(), options)
        };
        self.multi_get_pinned(family, keys, options, &profile, receive);
    }

    fn multi_get_pinned(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
        profile: &MultiGetProfile<'_>,
        mut receive: impl FnMut(usize, Result<Option<PinnedValue>>),
    ) {
        if let Err(error) = self.check_read(family, options) {
            return (0..keys.len()).for_each(|at| receive(at, Err(error.clone())));
        }
        let (current, snapshot) = (family.current(), || self.read_sequence(options));
        let last = LastPinned::default();
        let sink = || BatchPinned::new(&last);
        let receive = |at, pinned: Result<Option<BatchPinned<'_>>>| {
            receive(at, pinned.map(|pinned| pinned.and_then(|pinned| pinned.value)));
        };
        read::multi_get(current, keys, snapshot, profile, sink, receive);
    }

    /// Like [`Db::batched_multi_get_cf_opt`], but copies the values, one after another, into
    /// `values`.
    ///
    /// Values in memtables and cached blocks are copied without a lock. If `values` is reused, they
    /// are copied with one allocation at most.
    ///
    /// # Errors
    /// For each key, the errors of [`Db::get_cf_opt`]: see [`ValueBuffer::get`].
    pub fn multi_get_into_cf_opt(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
        values: &mut ValueBuffer,
    ) {
        values.fill(keys.len(), |buffer, receive| {
            if let Err(error) = self.check_read(family, options) {
                return (0..keys.len()).for_each(|at| receive(at, Err(error.clone())));
            }
            let snapshot = || self.read_sequence(options);
            let profile = self.multi_get_profile(family.name(), options);
            let sink = || CopiedValue::new(buffer);
            read::multi_get(family.current(), keys, snapshot, &profile, sink, |at, value| {
                receive(at, value.map(|value| value.map(|copied| copied.range)));
            });
        });
    }

    fn multi_get_profile<'a>(
        &'a self,
        family: &'a str,
        options: &ReadOptions,
    ) -> MultiGetProfile<'a> {
        MultiGetProfile {
            read: profile(options),
            levels_together: options.optimize_multiget_for_io,
            receiver_is_foreign: false,
            statistics: self.inner.shared.statistics.as_deref(),
            slow_reads: &self.inner.shared.slow_reads,
            family,
        }
    }

    /// Returns the values of several keys, each with the column family to search, as of one point
    /// in time, in the order of the keys. If all keys are in one column family,
    /// [`Db::batched_multi_get_cf_opt`] is cheaper, because it takes no snapshot.
    ///
    /// # Errors
    /// For each key, the errors of [`Db::get_cf_opt`].
    pub fn multi_get_cf_opt(
        &self,
        keys: &[(&ColumnFamily, impl AsRef<[u8]>)],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        let snapshot = options.snapshot.clone().unwrap_or_else(|| self.snapshot());
        let options = options.clone().with_snapshot(snapshot);
        // Keys that are refused keep their errors.
        let mut values: Vec<_> = keys
            .iter()
            .map(|(family, _)| self.check_read(family, &options).map(|()| None))
            .collect();
        let mut order: Vec<usize> = (0..keys.len()).filter(|&at| values[at].is_ok()).collect();
        order.sort_by_key(|&at| keys[at].0.id());
        let families = order.chunk_by(|&a, &b| keys[a].0.id() == keys[b].0.id());
        let families = families.map(|group| FamilyKeys {
            source: keys[group[0]].0.super_version(),
            keys: group.iter().map(|&at| (at, keys[at].1.as_ref())).collect(),
        });
        let (families, sequence) = (families.collect(), self.read_sequence(&options));
        let profile = self.multi_get_profile("", &options);
        let last = LastPinned::default();
        let sink = || BatchPinned::new(&last);
        read::multi_get_of_families(families, sequence, &profile, sink, |at, pinned| {
            values[at] = pinned.map(|pinned| pinned.and_then(|pinned| pinned.value));
        });
        values
    }

    /// Creates an iterator over a column family. The iterator has no position before its first
    /// seek.
    ///
    /// # Errors
    /// Errors from opening tables; invalid argument, as for [`Db::get_cf_opt`].
    pub fn raw_iterator_cf_opt(
        &self,
        family: &ColumnFamily,
        options: &ReadOptions,
    ) -> Result<DbIterator> {
        self.check_read(family, options)?;
        let source = family.super_version();
        let snapshot = self.read_sequence(options);
        let last = options.iterate_upper_bound.as_deref();
        let mut iterator =
            DbIterator::attributed(source, snapshot, options, &profile(options), last)?;
        if let Some(origin) = self.origin(family, options) {
            iterator.set_origin(origin);
        }
        Ok(iterator)
    }

    /// Returns the origin of iterators over a column family; `None` on a read-only handle, which
    /// has no newer super versions.
    pub(super) fn origin(&self, family: &ColumnFamily, options: &ReadOptions) -> Option<Origin> {
        matches!(self.inner.access, Access::Writing(_))
            .then(|| Origin::new(family, &self.inner.shared, options))
    }

    /// Like [`Self::check_family`], but for a read: also checks the snapshot in the options.
    #[inline(always)]
    pub(super) fn check_read(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<()> {
        let snapshot = options.snapshot.as_ref();
        let is_own_snapshot = snapshot.is_none_or(|snapshot| snapshot.is_of(&self.inner.shared));
        match (family.opening() == self.inner.opening, is_own_snapshot) {
            (true, true) => Ok(()),
            (is_own_family, _) => Err(foreign_read(family, is_own_family)),
        }
    }

    pub(super) fn read_sequence(&self, options: &ReadOptions) -> Sequence {
        options
            .snapshot
            .as_ref()
            .map_or_else(|| self.latest_sequence_number(), Snapshot::sequence_number)
    }
}

#[cold]
fn foreign_read(family: &ColumnFamily, is_own_family: bool) -> Error {
    if !is_own_family {
        return foreign(family);
    }
    Error::invalid_argument("the snapshot does not belong to this opening of the database")
}

pub(super) fn profile(options: &ReadOptions) -> ReadProfile {
    ReadProfile {
        purpose: Purpose::UserRead,
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
        charged: options.rate_limiter_priority,
    }
}
