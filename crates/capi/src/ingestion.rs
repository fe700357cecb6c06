//! Ingestion of tables.

use std::ffi::c_char;
use std::path::Path;

use tailwater::{ColumnFamily, ErrorKind, IngestOptions};

use crate::boundary::{Class, Failure, Outcome, entry, give, list, path, text};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::marks::{Marked, Marks};

/// Options of an ingestion.
#[derive(Default)]
pub(crate) struct rocksdb_ingestexternalfileoptions_t {
    pub(crate) options: IngestOptions,
    pub(crate) marks: Marks,
}

impl Marked for rocksdb_ingestexternalfileoptions_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_create() -> *mut rocksdb_ingestexternalfileoptions_t {
        Ok(give(rocksdb_ingestexternalfileoptions_t::default()))
    }
}

entry! {
    fn rocksdb_ingestexternalfileoptions_destroy(opt: own rocksdb_ingestexternalfileoptions_t) {
        drop(opt);
        Ok(())
    }
}

/// Ingests the files of an array of paths.
///
/// # Safety
/// `files` is an array of this length, of C strings.
unsafe fn ingest(
    db: &rocksdb_t,
    family: &ColumnFamily,
    (files, count): (*const *const c_char, usize),
    options: &rocksdb_ingestexternalfileoptions_t,
) -> Outcome<()> {
    db.ready()?;
    options.marks.check(db)?;
    // SAFETY: see above.
    let files = unsafe { list(files, count, "file_list")? };
    let paths = files
        .iter()
        // SAFETY: see above.
        .map(|&file| Ok(path(unsafe { text(file, "file_list")? })))
        .collect::<Outcome<Vec<&Path>>>()?;
    let ingested = db.db.ingest_external_file_cf_opts(family, &paths, &options.options);
    ingested.map(drop).map_err(|error| match error.kind() {
        // Another level than the last is needed.
        ErrorKind::Busy => Failure::from(error).with_class(Class::TryAgain),
        _ => error.into(),
    })
}

entry! {
    fn rocksdb_ingest_external_file(
        db: shared rocksdb_t,
        file_list: *const *const c_char,
        list_len: usize,
        opt: &rocksdb_ingestexternalfileoptions_t,
        errptr,
    ) {
        // SAFETY: the caller passes an array of this length.
        unsafe { ingest(db, db.db.default_cf(), (file_list, list_len), opt) }
    }
}

entry! {
    fn rocksdb_ingest_external_file_cf(
        db: shared rocksdb_t,
        handle: shared rocksdb_column_family_handle_t,
        file_list: *const *const c_char,
        list_len: usize,
        opt: &rocksdb_ingestexternalfileoptions_t,
        errptr,
    ) {
        // SAFETY: the caller passes an array of this length.
        unsafe { ingest(db, &handle.family, (file_list, list_len), opt) }
    }
}
