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
    const NULL: Self = Self { data: std::ptr::null(), size: 0 };

    #[inline]
    fn new(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

impl Returned for rocksdb_slice_t {
    const AFTER_FAILURE: Self = Self::NULL;
}

/// An iterator. After a failure it has no position, and keeps the failure until the next seek.
pub(crate) struct rocksdb_iterator_t {
    /// The key and value at the position; null if there is none. They stay where they are until
    /// `iterator` is moved.
    key: rocksdb_slice_t,
    value: rocksdb_slice_t,
    iterator: Option<DbIterator>,
    failure: Option<Failure>,
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
        Self {
            key: rocksdb_slice_t::NULL,
            value: rocksdb_slice_t::NULL,
            iterator,
            failure,
            marks: Marks::default(),
            _family: family.cloned(),
        }
    }

    /// Returns an iterator that shows nothing but a failure.
    pub(crate) fn failed(failure: Failure) -> Self {
        Self::new(Err(failure), None)
    }

    /// Whether the iterator has a position.
    #[inline]
    fn is_valid(&self) -> bool {
        !self.key.data.is_null()
    }

    #[inline]
    fn forget_position(&mut self) {
        (self.key, self.value) = (rocksdb_slice_t::NULL, rocksdb_slice_t::NULL);
    }

    /// Moves the iterator to another position, whatever happened before.
    fn seek(&mut self, seek: impl FnOnce(&mut DbIterator) -> tailwater::Result<()>) {
        if self.iterator.is_some() {
            self.failure = None;
        }
        self.go(seek);
    }

    /// Moves the iterator from its position to the next one.
    #[inline]
    fn step(&mut self, step: impl FnOnce(&mut DbIterator) -> tailwater::Result<()>) {
        if self.is_valid() {
            self.go(step);
        }
    }

    #[cold]
    fn fail(&mut self, error: tailwater::Error) {
        self.failure = Some(error.into());
    }

    #[inline]
    fn go(&mut self, go: impl FnOnce(&mut DbIterator) -> tailwater::Result<()>) {
        // Also for the case that the move panics.
        self.forget_position();
        let Some(iterator) = &mut self.iterator else { return };
        if let Err(error) = go(iterator) {
            self.fail(error);
        } else if let Some((key, value)) = iterator.item() {
            (self.key, self.value) = (rocksdb_slice_t::new(key), rocksdb_slice_t::new(value));
        }
    }
}

fn create(
    db: &rocksdb_t,
    options: &rocksdb_readoptions_t,
    family: &ColumnFamily,
) -> *mut rocksdb_iterator_t {
    let created = options.with(db, |options| Ok(db.db.raw_iterator_cf_opt(family, options)?));
    give(rocksdb_iterator_t::new(created, Some(family)))
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
        let mut options = opts.with(db, |options| Ok(options.clone()))?;
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
    fn rocksdb_iter_valid(iter: maybe_const rocksdb_iterator_t) -> c_uchar {
        Ok(iter.is_some_and(rocksdb_iterator_t::is_valid).into())
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
    fn rocksdb_iter_key(
        iter: maybe_const rocksdb_iterator_t,
        klen: out usize,
    ) -> *const c_char {
        let key = iter.map_or(rocksdb_slice_t::NULL, |iter| iter.key);
        klen.set(key.size);
        Ok(key.data)
    }
}

entry! {
    fn rocksdb_iter_value(
        iter: maybe_const rocksdb_iterator_t,
        vlen: out usize,
    ) -> *const c_char {
        let value = iter.map_or(rocksdb_slice_t::NULL, |iter| iter.value);
        vlen.set(value.size);
        Ok(value.data)
    }
}

entry! {
    fn rocksdb_iter_key_slice(iter: &rocksdb_iterator_t) -> rocksdb_slice_t {
        Ok(iter.key)
    }
}

entry! {
    fn rocksdb_iter_value_slice(iter: &rocksdb_iterator_t) -> rocksdb_slice_t {
        Ok(iter.value)
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
        iter.forget_position();
        let iterator = iter.iterator.as_mut().ok_or_else(|| {
            let failure = iter.failure.clone();
            failure.unwrap_or_else(|| Failure::new(Class::Aborted, "there is no iterator"))
        })?;
        iterator.refresh()?;
        iter.failure = None;
        Ok(())
    }
}
