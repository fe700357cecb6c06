//! Writers of tables.

use std::ffi::CStr;

use tailwater::{OpenOptions, SstFileWriter};

use crate::boundary::{Failure, Outcome, entry, give, path};
use crate::comparator::rocksdb_comparator_t;
use crate::env_options::rocksdb_envoptions_t;
use crate::options::rocksdb_options_t;

/// A writer of tables.
pub(crate) struct rocksdb_sstfilewriter_t {
    options: rocksdb_options_t,
    writer: Option<SstFileWriter>,
    /// The size of the last finished table, in bytes.
    finished_size: u64,
}

impl rocksdb_sstfilewriter_t {
    fn new(options: &rocksdb_options_t) -> Self {
        Self { options: options.clone(), writer: None, finished_size: 0 }
    }

    fn open(&mut self, name: &CStr) -> Outcome<()> {
        self.options.marks.refusal()?;
        let mut open = OpenOptions::default();
        self.options.add_database(&mut open);
        self.options.add_family(&mut open, "default")?;
        let mut writer = SstFileWriter::new(&open, "default")?;
        // Removes an unfinished table, which may be at the same path.
        self.writer = None;
        writer.open(path(name))?;
        self.writer = Some(writer);
        self.finished_size = 0;
        Ok(())
    }

    fn opened(&mut self) -> Outcome<&mut SstFileWriter> {
        self.writer.as_mut().ok_or_else(|| Failure::invalid("File is not opened"))
    }
}

entry! {
    fn rocksdb_sstfilewriter_create(
        env: maybe_const rocksdb_envoptions_t,
        io_options: &rocksdb_options_t,
    ) -> *mut rocksdb_sstfilewriter_t {
        let _ = env;
        Ok(give(rocksdb_sstfilewriter_t::new(io_options)))
    }
}

entry! {
    /// As in RocksDB, the comparator is that of the options.
    fn rocksdb_sstfilewriter_create_with_comparator(
        env: maybe_const rocksdb_envoptions_t,
        io_options: &rocksdb_options_t,
        comparator: maybe_const rocksdb_comparator_t,
    ) -> *mut rocksdb_sstfilewriter_t {
        let _ = (env, comparator);
        Ok(give(rocksdb_sstfilewriter_t::new(io_options)))
    }
}

entry! {
    fn rocksdb_sstfilewriter_destroy(writer: own rocksdb_sstfilewriter_t) {
        drop(writer);
        Ok(())
    }
}

entry! {
    fn rocksdb_sstfilewriter_open(
        writer: &mut rocksdb_sstfilewriter_t,
        name: text,
        errptr,
    ) {
        writer.open(name)
    }
}

entry! {
    fn rocksdb_sstfilewriter_add(
        writer: &mut rocksdb_sstfilewriter_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(writer.opened()?.put(key, val)?)
    }
}

entry! {
    fn rocksdb_sstfilewriter_put(
        writer: &mut rocksdb_sstfilewriter_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(writer.opened()?.put(key, val)?)
    }
}

entry! {
    fn rocksdb_sstfilewriter_merge(
        writer: &mut rocksdb_sstfilewriter_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(writer.opened()?.merge(key, val)?)
    }
}

entry! {
    fn rocksdb_sstfilewriter_delete(
        writer: &mut rocksdb_sstfilewriter_t,
        key: bytes[keylen],
        errptr,
    ) {
        Ok(writer.opened()?.delete(key)?)
    }
}

entry! {
    fn rocksdb_sstfilewriter_delete_range(
        writer: &mut rocksdb_sstfilewriter_t,
        begin_key: bytes[begin_keylen],
        end_key: bytes[end_keylen],
        errptr,
    ) {
        Ok(writer.opened()?.delete_range(begin_key, end_key)?)
    }
}

entry! {
    fn rocksdb_sstfilewriter_finish(writer: &mut rocksdb_sstfilewriter_t, errptr) {
        writer.finished_size = writer.opened()?.finish()?.file_size;
        Ok(())
    }
}

entry! {
    fn rocksdb_sstfilewriter_file_size(
        writer: shared rocksdb_sstfilewriter_t,
        file_size: out u64,
    ) {
        let written = writer.writer.as_ref().map_or(0, SstFileWriter::file_size);
        file_size.set(written.max(writer.finished_size));
        Ok(())
    }
}
