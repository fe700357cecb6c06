//! The OPTIONS file: what the database was last opened with, in RocksDB's form.
//!
//! It is written aside, synced and renamed. Of older ones the newest is kept, as RocksDB does.

use tailwater_format::file_name::FileKind;
use tailwater_io::Purpose;

use crate::Result;
use crate::db::Writer;
use crate::options::Options;
use crate::version::write_whole;

/// How many OPTIONS files are kept.
const KEPT: usize = 2;

impl Writer {
    /// Writes the options of the database and its column families as they are.
    ///
    /// # Errors
    /// Those of writing the file. That an older one stays is none; the LOG has it.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        self.write_new_options()?;
        if let Err(error) = self.remove_old_options() {
            self.info_log.warn(format_args!("an old OPTIONS file stays: {error}"));
        }
        Ok(())
    }

    /// As [`Self::write_options_file`] after something that was done with the database, of which it
    /// is no error if this fails; the LOG has it.
    pub(crate) fn update_options_file(&self) {
        if let Err(error) = self.write_options_file() {
            self.info_log.warn(format_args!("the OPTIONS file was not written: {error}"));
        }
    }

    /// The options as an OPTIONS file has them.
    pub(crate) fn options_text(&self) -> String {
        let families = self.shared.family_set();
        let options = Options {
            database: self.database.clone(),
            column_families: families
                .iter()
                .map(|family| (family.name().to_owned(), family.options().clone()))
                .collect(),
        };
        options.to_document().to_text()
    }

    fn write_new_options(&self) -> Result<()> {
        let text = self.options_text();
        let number = self.numbers.take();
        let aside = self.directory.join(FileKind::TemporaryOptions(number).to_string());
        let path = self.directory.join(FileKind::Options(number).to_string());
        write_whole(&*self.storage, &aside, text.as_bytes(), Purpose::Metadata)?;
        // A crash here is safe: the older file counts.
        self.storage.rename(&aside, &path)?;
        self.storage.sync_directory(&self.directory)?;
        Ok(())
    }

    fn remove_old_options(&self) -> Result<()> {
        let entries = self.storage.list(&self.directory)?;
        let mut numbers: Vec<u64> = entries
            .iter()
            .filter_map(|entry| match FileKind::parse(&entry.name) {
                Some(FileKind::Options(number)) => Some(number),
                _ => None,
            })
            .collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        for number in numbers.into_iter().skip(KEPT) {
            self.storage.remove(&self.directory.join(FileKind::Options(number).to_string()))?;
        }
        Ok(())
    }
}
