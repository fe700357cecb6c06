//! The settings of an open column family: its options, and the objects made from them.

use std::sync::Arc;

use crate::column_family::FamilyReaders;
use crate::memtable::FilterSettings;
use crate::options::ColumnFamilyOptions;
use crate::table::builder::Format;

/// The settings of a column family. Immutable: [`crate::Db::set_options`] replaces the settings
/// together with the super version, and holders of the old settings keep using those.
#[derive(Debug)]
pub(crate) struct FamilySettings {
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The format of new tables.
    pub(crate) table_format: Arc<Format>,
    /// The filters of new memtables, if they have filters.
    pub(crate) memtable_filter: Option<FilterSettings>,
    /// The resources for reads. A table that is already open keeps the resources with which it was
    /// opened.
    pub(crate) readers: Arc<FamilyReaders>,
}

impl FamilySettings {
    /// Creates settings from `options`, and from the readers of tables and blob files that were
    /// created with the same options.
    pub(crate) fn new(options: ColumnFamilyOptions, readers: Arc<FamilyReaders>) -> Self {
        let context = readers.tables.context();
        let table_format = Arc::new(Format::new(
            &options,
            context.comparator.clone(),
            context.prefix_extractor.clone(),
            readers.merge_operator.name(),
        ));
        let memtable_filter = FilterSettings::new(&options, context.prefix_extractor.as_ref());
        Self { options: Arc::new(options), table_format, memtable_filter, readers }
    }
}
