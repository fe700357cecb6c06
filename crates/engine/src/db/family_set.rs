//! The column families that are open.

use std::collections::BTreeMap;

use crate::db::ColumnFamily;

/// The column families that are open, by id. It never changes: another takes its place.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilySet {
    families: BTreeMap<u32, ColumnFamily>,
}

impl FamilySet {
    /// The set of these.
    pub(crate) fn new(families: impl IntoIterator<Item = ColumnFamily>) -> Self {
        Self { families: families.into_iter().map(|family| (family.id(), family)).collect() }
    }

    /// The column family of that id.
    #[inline]
    pub(crate) fn by_id(&self, id: u32) -> Option<&ColumnFamily> {
        self.families.get(&id)
    }

    /// The column family of that name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&ColumnFamily> {
        self.iter().find(|family| family.name() == name)
    }

    /// All, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ColumnFamily> {
        self.families.values()
    }

    /// The set with one more.
    pub(crate) fn with(&self, family: ColumnFamily) -> Self {
        let mut with = self.clone();
        with.families.insert(family.id(), family);
        with
    }

    /// The set without one.
    pub(crate) fn without(&self, id: u32) -> Self {
        let mut without = self.clone();
        without.families.remove(&id);
        without
    }
}
