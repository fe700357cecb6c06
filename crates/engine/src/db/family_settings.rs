//! What a column family goes by while it is open: its options, and what is made from them.

use std::sync::Arc;

use crate::db::{Closing, FamilyReaders, merge_operator_name};
use crate::options::ColumnFamilyOptions;
use crate::table::builder::Format;

/// What a column family goes by. It never changes: [`crate::Db::set_options`] puts another in its
/// place, together with the super version, and whoever has this one keeps to it.
#[derive(Debug)]
pub(crate) struct FamilySettings {
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The form of the tables that are written.
    pub(crate) table_format: Arc<Format>,
    /// What reads go through. Tables that are open keep what they were opened with.
    pub(crate) readers: Arc<FamilyReaders>,
    #[expect(
        dead_code,
        reason = "dropped last by an iterator that outlives its database, of which it has tables"
    )]
    closing: Closing,
}

impl FamilySettings {
    /// Options, and the readers that were made from them.
    pub(crate) fn new(options: ColumnFamilyOptions, readers: Arc<FamilyReaders>) -> Self {
        let context = readers.tables.context();
        let table_format = Arc::new(Format::new(
            &options,
            context.comparator.clone(),
            context.prefix_extractor.clone(),
            merge_operator_name(&readers.merge_operator),
        ));
        Self { options: Arc::new(options), table_format, readers, closing: Closing }
    }
}
