//! Filter lookups.

use tailwater_format::block::{IndexCursor, IndexFormat};
use tailwater_format::filter::FilterKey;
use tailwater_format::key::{self, ValueType};
use tailwater_format::table::BlockHandle;

use crate::block_cache::BlockKind;
use crate::error::Result;
use crate::prefix_extractor::PrefixExtractor;
use crate::table::reader::{
    AccessResult, BlockAccess, FilterKind, Loading, Probe, ReadProfile, TableReader,
};

impl TableReader {
    /// Whether the table may contain the user key. Also returns the event that the caller counts if
    /// it then finds the key in the table.
    #[inline]
    pub(crate) fn may_contain<A: BlockAccess>(
        &self,
        access: &A,
        user_key: &[u8],
        cursor: &mut IndexCursor,
    ) -> AccessResult<(bool, Option<Probe>), A> {
        if matches!(self.filter.kind, FilterKind::None) {
            return Ok((true, None));
        }
        let (key, absent, possible, present) = if self.filter.whole_keys {
            (user_key, Probe::KeyAbsent, Probe::KeyPossible, Probe::KeyPresent)
        } else {
            let prefixes = self.filter.prefixes.as_ref();
            match prefixes.and_then(|prefixes| prefixes.prefix(user_key)) {
                Some(prefix) => {
                    (prefix, Probe::PrefixAbsent, Probe::PrefixPossible, Probe::PrefixPresent)
                }
                None => return Ok((true, None)),
            }
        };
        let has = self.filter_has(access, FilterKey::new(key), user_key, cursor)?;
        access.count(self, if has { possible } else { absent });
        Ok((has, Some(present)))
    }

    /// Whether the table may have a key with the prefix of `user_key`. Used by iterators that need
    /// not show keys with other prefixes.
    pub(crate) fn may_contain_prefix<A: BlockAccess>(
        &self,
        access: &A,
        user_key: &[u8],
        cursor: &mut IndexCursor,
    ) -> AccessResult<bool, A> {
        let prefix = self.filter.prefixes.as_ref().and_then(|prefixes| prefixes.prefix(user_key));
        match prefix {
            Some(prefix) => self.filter_has(access, FilterKey::new(prefix), user_key, cursor),
            None => Ok(true),
        }
    }

    /// Whether `prefixes` is the extractor that extracted the prefixes in the filter.
    pub(crate) fn filters_by(&self, prefixes: Option<&PrefixExtractor>) -> bool {
        match (&self.filter.prefixes, prefixes) {
            (Some(own), Some(current)) => own.same_as(current),
            _ => false,
        }
    }

    /// Returns the handles of the filter's partitions, in order; none if it is not partitioned.
    pub(crate) fn filter_partitions(&self, profile: &ReadProfile) -> Result<Vec<BlockHandle>> {
        let FilterKind::Partitioned(root) = &self.filter.kind else { return Ok(Vec::new()) };
        let access = Loading(profile);
        let handle = root.handle;
        let root = self.meta_block(&access, root, BlockKind::Index)?;
        let mut handles = Vec::new();
        let damaged = |error| self.damaged(handle, error);
        root.walk_index(self.filter_index_format(), damaged, |cursor| {
            handles.push(cursor.handle());
            Ok(())
        })?;
        Ok(handles)
    }

    /// Returns the format of the index of filter partitions, which never has first keys.
    fn filter_index_format(&self) -> IndexFormat {
        IndexFormat { first_keys: false, ..self.index.format }
    }

    #[inline]
    fn filter_has<A: BlockAccess>(
        &self,
        access: &A,
        key: FilterKey<'_>,
        user_key: &[u8],
        cursor: &mut IndexCursor,
    ) -> AccessResult<bool, A> {
        match &self.filter.kind {
            FilterKind::None => Ok(true),
            FilterKind::Full(block) => {
                let block = self.meta_block(access, block, BlockKind::Filter)?;
                Ok(block.may_contain(&key))
            }
            FilterKind::Partitioned(root) => {
                let handle = root.handle;
                let root = self.meta_block(access, root, BlockKind::Index)?;
                let trailer = key::pack_trailer(key::MAX_SEQUENCE, ValueType::FOR_SEEK);
                let damaged = |error| self.damaged(handle, error);
                let format = self.filter_index_format();
                self.seek_index(&root, format, cursor, user_key, trailer).map_err(damaged)?;
                if !cursor.valid() {
                    // The key is past the last partition's last key, but the last partition may
                    // contain the key's prefix.
                    cursor.seek_to_last(root.bytes(), root.layout(), format).map_err(damaged)?;
                }
                if !cursor.valid() {
                    return Ok(true);
                }
                let partition = access.block(self, cursor.handle(), BlockKind::Filter)?;
                Ok(partition.may_contain(&key))
            }
        }
    }
}
