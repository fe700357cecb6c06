//! The set of open column families.

use std::collections::BTreeMap;

use crate::column_family::ColumnFamily;

/// The open column families, by ID. Immutable; changes create a new set that replaces the old set.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilySet {
    families: BTreeMap<u32, ColumnFamily>,
}

impl FamilySet {
    /// Creates a set of `families`.
    pub(crate) fn new(families: impl IntoIterator<Item = ColumnFamily>) -> Self {
        Self { families: families.into_iter().map(|family| (family.id(), family)).collect() }
    }

    /// Returns the column family with this ID.
    #[inline]
    pub(crate) fn by_id(&self, id: u32) -> Option<&ColumnFamily> {
        self.families.get(&id)
    }

    /// Returns the column family with this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&ColumnFamily> {
        self.iter().find(|family| family.name() == name)
    }

    /// Iterates over all column families, in the order of their IDs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ColumnFamily> {
        self.families.values()
    }

    /// Returns the set with more column families.
    pub(crate) fn with(&self, families: impl IntoIterator<Item = ColumnFamily>) -> Self {
        let mut with = self.clone();
        with.families.extend(families.into_iter().map(|family| (family.id(), family)));
        with
    }

    /// Returns the set without family `id`.
    pub(crate) fn without(&self, id: u32) -> Self {
        let mut without = self.clone();
        without.families.remove(&id);
        without
    }
}
