//! Iterators.

use std::ffi::{c_char, c_uchar};

use tailwater::{ColumnFamily, DbIterator};

use crate::boundary::{
    Class, Failure, Out, Outcome, Returned, entry, give, list, pointers, reference_mut,
};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::marks::{Marked, Marks};
use crate::read_options::rocksdb_readoptions_t;

/// A slice of bytes, passed by value.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct rocksdb_slice_t {
    pub(crate) data: *const c_char,
    pub(crate) size: usize,
}

impl rocksdb_slice_t {
    fn new(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

impl Returned for rocksdb_slice_t {
    const AFTER_FAILURE: Self = Self { data: std::ptr::null(), size: 0 };
}

/// An iterator. After a failure it has no position, and keeps the failure until the next seek.
pub(crate) struct rocksdb_iterator_t {
    iterator: Option<DbIterator>,
    failure: Option<Failure>,
    /// Whether the iterator has a position: programs ask before each step.
    is_valid: bool,
    marks: Marks,
    /// Keeps the column family, so that the iterator can be refreshed after the family was dropped.
    _family: Option<ColumnFamily>,
}

impl Marked for rocksdb_iterator_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_iterator_t {
    fn new(created: Outcome<DbIterator>, family: Option<&ColumnFamily>) -> Self {
        let (iterator, failure) = match created {
            Ok(iterator) => (Some(iterator), None),
            Err(failure) => (None, Some(failure)),
        };
        let is_valid = false;
        Self { iterator, failure, is_valid, marks: Marks::default(), _family: family.cloned() }
    }

    /// Returns an iterator that shows nothing but a failure.
    pub(crate) fn failed(failure: Failure) -> Self {
        Self::new(Err(failure), None)
    }

    #[inline]
    fn valid(&self) -> bool {
        self.is_valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], DbIterator::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.iterator.as_ref().map_or(&[], DbIterator::value)
    }

    /// Moves the iterator to another position, whatever happened before.
    #[inline]
    fn seek(&mut self, seek: impl FnOnce(&mut DbIterator) -> tailwater::Result<()>) {
        let Some(iterator) = &mut self.iterator else { return };
        match seek(iterator) {
            Ok(()) => {
                self.is_valid = iterator.valid();
                if self.failure.is_some() {
                    self.failure = None;
                }
            }
            Err(error) => {
                self.is_valid = false;
                self.failure = Some(error.into());
            }
        }
    }

    /// Moves the iterator from its position to the next one.
    #[inline]
    fn step(&mut self, step: impl FnOnce(&mut DbIterator) -> tailwater::Result<()>) {
        if self.valid() {
            self.seek(step);
        }
    }
}

fn create(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
) -> *mut rocksdb_iterator_t {
    let created = || Ok(db.db.raw_iterator_cf_opt(family, &*options.ready(db)?)?);
    give(rocksdb_iterator_t::new(created(), Some(family)))
}

entry! {
    fn rocksdb_create_iterator(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        Ok(create(db, options, db.db.default_cf()))
    }
}

entry! {
    fn rocksdb_create_iterator_cf(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        Ok(create(db, options, &column_family.family))
    }
}

entry! {
    /// Creates iterators that show the same state of the database.
    fn rocksdb_create_iterators(
        db: shared rocksdb_t,
        opts: shared rocksdb_readoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        iterators: *mut *mut rocksdb_iterator_t,
        size: usize,
        errptr,
    ) {
        // SAFETY: the caller passes arrays of this length.
        let families = unsafe {
            list(iterators.cast_const(), size, "iterators")?;
            pointers(column_families.cast_const().cast(), size, "column_families")?
        };
        let families: Vec<&rocksdb_column_family_handle_t> = families;
        let mut options = opts.ready(db)?.into_owned();
        options.snapshot.get_or_insert_with(|| db.db.snapshot());
        let created = families
            .iter()
            .map(|handle| db.db.raw_iterator_cf_opt(&handle.family, &options))
            .collect::<tailwater::Result<Vec<_>>>()?;
        for (at, (iterator, handle)) in created.into_iter().zip(families).enumerate() {
            let iterator = rocksdb_iterator_t::new(Ok(iterator), Some(&handle.family));
            // SAFETY: the caller passes an array of this length.
            unsafe { Out::new(iterators.add(at)) }.set(give(iterator));
        }
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_destroy(iter: own rocksdb_iterator_t) {
        drop(iter);
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_valid(iter: &rocksdb_iterator_t) -> c_uchar {
        Ok(iter.valid().into())
    }
}

entry! {
    fn rocksdb_iter_seek_to_first(iter: &mut rocksdb_iterator_t) {
        iter.seek(DbIterator::seek_to_first);
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_seek_to_last(iter: &mut rocksdb_iterator_t) {
        iter.seek(DbIterator::seek_to_last);
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_seek(iter: &mut rocksdb_iterator_t, k: bytes[klen]) {
        iter.seek(|iterator| iterator.seek(k));
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_seek_for_prev(iter: &mut rocksdb_iterator_t, k: bytes[klen]) {
        iter.seek(|iterator| iterator.seek_for_prev(k));
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_next(iter: &mut rocksdb_iterator_t) {
        iter.step(DbIterator::next);
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_prev(iter: &mut rocksdb_iterator_t) {
        iter.step(DbIterator::prev);
        Ok(())
    }
}

entry! {
    fn rocksdb_iter_key(iter: &rocksdb_iterator_t, klen: out usize) -> *const c_char {
        let key = iter.key();
        klen.set(key.len());
        Ok(key.as_ptr().cast())
    }
}

entry! {
    fn rocksdb_iter_value(iter: &rocksdb_iterator_t, vlen: out usize) -> *const c_char {
        let value = iter.value();
        vlen.set(value.len());
        Ok(value.as_ptr().cast())
    }
}

entry! {
    fn rocksdb_iter_key_slice(iter: &rocksdb_iterator_t) -> rocksdb_slice_t {
        Ok(rocksdb_slice_t::new(iter.key()))
    }
}

entry! {
    fn rocksdb_iter_value_slice(iter: &rocksdb_iterator_t) -> rocksdb_slice_t {
        Ok(rocksdb_slice_t::new(iter.value()))
    }
}

entry! {
    fn rocksdb_iter_get_error(iter: &rocksdb_iterator_t, errptr) {
        iter.marks.refusal()?;
        iter.failure.clone().map_or(Ok(()), Err)
    }
}

entry! {
    fn rocksdb_iter_refresh(iter: *const rocksdb_iterator_t, errptr) {
        // SAFETY: the caller does not use the iterator otherwise during the call.
        let iter = unsafe { reference_mut(iter.cast_mut(), "iter")? };
        let iterator = iter.iterator.as_mut().ok_or_else(|| {
            let failure = iter.failure.clone();
            failure.unwrap_or_else(|| Failure::new(Class::Aborted, "there is no iterator"))
        })?;
        iter.is_valid = false;
        iterator.refresh()?;
        iter.failure = None;
        Ok(())
    }
}
