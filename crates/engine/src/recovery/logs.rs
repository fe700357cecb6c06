//! The second step: the logs, in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::{Purpose, Storage};

use super::{LogsReplayed, ManifestRead, OpenOptions};
use crate::blob::BlobCache;
use crate::db::{ColumnFamily, FamilyReaders, SuperVersion};
use crate::memtable::MemTable;
use crate::table::{BlockCache, OpenTables, TableCache, TableContext};
use crate::version::Version;
use crate::version::manifest::FamilyState;
use crate::wal::replay::{self, ReplayFamily, ReplayRules};
use crate::{Error, ErrorKind, Result};

/// A column family on its way to being read.
struct Family {
    id: u32,
    name: String,
    version: Arc<Version>,
    readers: Arc<FamilyReaders>,
    memtable: Arc<MemTable>,
}

/// What the column families share.
struct Shared {
    block_cache: Arc<BlockCache>,
    open_tables: Arc<OpenTables>,
    max_open_files: Option<usize>,
}

impl ManifestRead {
    /// Replays the logs into memtables.
    pub(crate) fn replay_logs(self) -> Result<LogsReplayed> {
        let Self { unrecovered, manifest } = self;
        let (directory, storage) = (unrecovered.directory, unrecovered.storage);
        let options = unrecovered.options;
        // A negative number means any.
        let max_open_files = usize::try_from(options.database().max_open_files).ok();
        let shared = Shared {
            block_cache: options.shared_block_cache(),
            open_tables: Arc::new(OpenTables::new(max_open_files)),
            max_open_files,
        };
        let mut left_out = manifest.left_out();
        let mut families = Vec::new();
        let mut targets = BTreeMap::new();
        for (id, state) in manifest.column_families {
            let log_number = state.log_number;
            let family = family(&directory, &options, &shared, state)
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
        let logs = options.wal_directory(&directory);
        let rules = ReplayRules {
            mode: options.database().wal_recovery_mode,
            min_log_number: manifest.min_log_number_to_keep,
            verifies_predecessors: options.database().track_and_verify_wals,
        };
        if options.database().track_and_verify_wals_in_manifest {
            let tracked = manifest.synced_logs.range(rules.min_log_number..);
            check_tracked(&*storage, &logs, tracked)?;
        }
        let last_sequence = manifest.last_sequence;
        let replayed = replay::replay(&*storage, &logs, rules, last_sequence, &targets)?;
        if options.database().max_open_files == -1 {
            for family in &families {
                open_tables(family)?;
            }
        }
        left_out.extend(replayed.left_out);
        let families = families.into_iter().map(|family| {
            let source = SuperVersion::new(vec![family.memtable], family.version, family.readers);
            ColumnFamily::new(family.id, family.name, source)
        });
        Ok(LogsReplayed {
            families: families.collect(),
            directory,
            storage,
            last_sequence: replayed.last_sequence,
            left_out,
        })
    }
}

/// Checks that the logs which the MANIFEST says were synced are there, as long as they were then at
/// least.
fn check_tracked<'a>(
    storage: &dyn Storage,
    directory: &Path,
    tracked: impl Iterator<Item = (&'a u64, &'a u64)>,
) -> Result<()> {
    for (&number, &size) in tracked {
        let path = directory.join(FileKind::Wal(number).to_string());
        let length = match storage.metadata(&path) {
            Ok(metadata) => metadata.length,
            Err(error) if error.is_not_found() => {
                return Err(Error::corruption(&path, "the log was synced, and is missing"));
            }
            Err(error) => return Err(error.into()),
        };
        if length < size {
            let message = format!("{size} bytes were synced, but it has {length}");
            return Err(Error::corruption(&path, message));
        }
    }
    Ok(())
}

fn family(
    directory: &Path,
    options: &OpenOptions,
    shared: &Shared,
    state: FamilyState,
) -> Result<Family> {
    let FamilyState { id, name, comparator, files, .. } = state;
    let comparator = options.comparator(&name, &comparator)?;
    let set = options.column_family(&name);
    let version = files
        .finish(&comparator, set.num_levels as usize)
        .map_err(|what| Error::new(ErrorKind::Corruption, format!("the MANIFEST {what}")))?;
    let context = Arc::new(TableContext {
        comparator: comparator.clone(),
        prefix_extractor: options.prefix_extractor(&name),
        block_cache: options.block_cache(&name, &shared.block_cache),
        uses_filters: options.uses_filters(&name),
        verifies_unique_ids: options.database().verify_sst_unique_id_in_manifest,
        meta_blocks: options.meta_block_placement(&name),
        auto_read_ahead: options.auto_read_ahead(&name),
    });
    let storage = Arc::clone(options.storage());
    let directories = options.table_directories(directory, &name);
    let blobs = options.blob_directory(directory, &name);
    let blobs = BlobCache::new(Arc::clone(&storage), blobs, shared.max_open_files);
    let open_tables = Arc::clone(&shared.open_tables);
    let readers = FamilyReaders {
        tables: Arc::new(TableCache::new(storage, directories, context, open_tables)),
        blobs,
        merge_operator: options.merge_operator(&name),
        max_sequential_skip: set.max_sequential_skip_in_iterations,
    };
    Ok(Family {
        id,
        name,
        version: Arc::new(version),
        readers: Arc::new(readers),
        memtable: Arc::new(MemTable::new(comparator)),
    })
}

/// Opens all tables of a column family, so that one that uses what is not built is refused now and
/// not when it is read. Damage is left for the reads that meet it: the other tables can be read.
fn open_tables(family: &Family) -> Result<()> {
    for (_, file) in family.version.files() {
        match family.readers.tables.open(file, Purpose::UserRead) {
            Err(error) if error.kind() == ErrorKind::NotSupported => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
