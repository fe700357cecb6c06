//! The second step: the logs, in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;

use super::{LogsReplayed, ManifestRead, OpenOptions};
use crate::blob::BlobCache;
use crate::db::{ColumnFamily, FamilyReaders, SuperVersion};
use crate::memtable::MemTable;
use crate::table::{TableCache, TableContext};
use crate::version::Version;
use crate::version::manifest::FamilyState;
use crate::wal::replay::{self, ReplayFamily};
use crate::{Error, Result};

/// A column family on its way to being read.
struct Family {
    id: u32,
    name: String,
    version: Arc<Version>,
    readers: Arc<FamilyReaders>,
    memtable: Arc<MemTable>,
}

impl ManifestRead {
    /// Replays the logs into memtables.
    pub(crate) fn replay_logs(self) -> Result<LogsReplayed> {
        let Self { unrecovered, manifest } = self;
        let (directory, storage) = (unrecovered.directory, unrecovered.storage);
        let options = unrecovered.options;
        let mut families = Vec::new();
        let mut targets = BTreeMap::new();
        for (id, state) in manifest.column_families {
            let log_number = state.log_number;
            let family = family(&directory, &options, state)
                .map_err(|error| error.in_file(&manifest.path))?;
            targets.insert(
                id,
                ReplayFamily {
                    name: family.name.clone(),
                    log_number,
                    has_tables: family.version.files().next().is_some(),
                    memtable: Arc::clone(&family.memtable),
                },
            );
            families.push(family);
        }
        let mode = options.recovery_mode;
        let replayed =
            replay::replay(&*storage, &directory, mode, manifest.last_sequence, &targets)?;
        let families = families.into_iter().map(|family| {
            let source = SuperVersion::new(vec![family.memtable], family.version, family.readers);
            ColumnFamily::new(family.id, family.name, source)
        });
        Ok(LogsReplayed {
            families: families.collect(),
            directory,
            storage,
            last_sequence: replayed.last_sequence,
            left_out: replayed.left_out,
        })
    }
}

fn family(directory: &Path, options: &OpenOptions, state: FamilyState) -> Result<Family> {
    let FamilyState { id, name, comparator, files, .. } = state;
    let comparator = Comparator::built_in(&comparator).ok_or_else(|| {
        Error::invalid_argument(format!(
            "column family '{name}' was written with comparator '{comparator}', which is not known"
        ))
    })?;
    let settings = options.families.get(&name).cloned().unwrap_or_default();
    let version = files
        .finish(&comparator, 7)
        .map_err(|what| Error::new(crate::ErrorKind::Corruption, format!("the MANIFEST {what}")))?;
    let context = Arc::new(TableContext {
        comparator: comparator.clone(),
        prefix_extractor: settings.prefix_extractor,
        block_cache: options.block_cache.clone(),
        cache_index_and_filter_blocks: false,
    });
    let storage = Arc::clone(&options.storage);
    let directories = vec![directory.to_owned()];
    let tables =
        TableCache::new(Arc::clone(&storage), directories, context, options.max_open_files);
    let readers = FamilyReaders {
        tables: Arc::new(tables),
        blobs: BlobCache::new(storage, directory.to_owned()),
        merge_operator: settings.merge_operator,
        max_sequential_skip: 8,
    };
    Ok(Family {
        id,
        name,
        version: Arc::new(version),
        readers: Arc::new(readers),
        memtable: Arc::new(MemTable::new(comparator)),
    })
}
