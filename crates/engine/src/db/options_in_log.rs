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
        let (text, objects) = (log_text::database(&database), self.shared_objects());
        info_log.header(format_args!("Options:\n{text}{objects}"));
        self.write_family_options_to_log(self.context.shared.family_set().iter());
    }

    /// Returns the current settings of the objects that databases can share, one a line. They are
    /// no part of the OPTIONS file.
    fn shared_objects(&self) -> String {
        let options = self.context.options.open();
        let mut lines = Vec::new();
        match &self.context.readers.write_buffer_manager {
            Some(manager) => lines.extend([
                format!("write_buffer_manager.buffer_size: {}", manager.buffer_size()),
                format!("write_buffer_manager.allow_stall: {}", u8::from(manager.allow_stall())),
                format!(
                    "write_buffer_manager.cost_to_cache: {}",
                    u8::from(manager.cost_to_cache())
                ),
            ]),
            None => lines.push("write_buffer_manager: None".to_owned()),
        }
        match self.context.options.rate_limiter() {
            Some(limiter) => lines.extend([
                format!("rate_limiter.bytes_per_second: {}", limiter.bytes_per_second()),
                format!("rate_limiter.mode: {:?}", limiter.mode()),
            ]),
            None => lines.push("rate_limiter: None".to_owned()),
        }
        let rate = options.sst_file_manager().map_or(0, |it| it.delete_rate_bytes_per_second());
        lines.push(format!("sst_file_manager.rate_bytes_per_sec: {rate}"));
        let rows = options.row_cache().map(|cache| cache.capacity().to_string());
        lines.push(format!("row_cache: {}", rows.unwrap_or_else(|| "None".to_owned())));
        lines.into_iter().map(|line| format!("  Options.{line}\n")).collect()
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
