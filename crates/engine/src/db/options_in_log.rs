//! The options that apply, in the LOG.

use super::Database;
use crate::column_family::ColumnFamily;
use crate::options::log_text;

/// Number of column families whose options are all written to the LOG. RocksDB has the same number.
const FAMILIES_IN_FULL: usize = 10;

impl Database {
    /// Writes the options of the database and of all its column families to the LOG.
    pub(super) fn write_options_to_log(&self) {
        let info_log = &self.context.info_log;
        let database = self.context.options.now();
        info_log.header(format_args!("{}", log_text::support()));
        info_log.header(format_args!("Options:\n{}", log_text::database(&database)));
        self.write_family_options_to_log(self.context.shared.family_set().iter());
    }

    /// Writes the options of column families to the LOG. From the eleventh family of the database
    /// on, only what differs from the first.
    pub(super) fn write_family_options_to_log<'a>(
        &self,
        families: impl Iterator<Item = &'a ColumnFamily>,
    ) {
        let all = self.context.shared.family_set();
        let first = all.iter().next().map(ColumnFamily::options);
        let last_in_full = all.iter().take(FAMILIES_IN_FULL).last().map(ColumnFamily::id);
        for family in families {
            let (name, options) = (family.name(), family.options());
            let other = first.as_deref().filter(|_| Some(family.id()) > last_in_full);
            let differ = if other.is_some() { ", where they differ" } else { "" };
            let text = log_text::family(&options, other);
            let info_log = &self.context.info_log;
            info_log.header(format_args!("Options for column family [{name}]{differ}:\n{text}"));
        }
    }
}
