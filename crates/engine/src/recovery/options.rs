//! What a database is opened with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_format::log::RecoveryMode;
use tailwater_format::options_text::Document;
use tailwater_io::posix::PosixStorage;
use tailwater_io::{IoMode, Purpose, Storage};

use crate::cache::Cache;
use crate::merge_operator::MergeOperator;
use crate::prefix_extractor::PrefixExtractor;
use crate::table::Block;
use crate::{Error, Result};

/// What a database is opened with.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) recovery_mode: RecoveryMode,
    pub(crate) families: BTreeMap<String, FamilyOptions>,
    pub(crate) max_open_files: Option<usize>,
    pub(crate) block_cache: Option<Arc<Cache<Block>>>,
}

/// temp
#[derive(Debug, Clone, Default)]
pub struct FamilyOptions {
    pub(crate) merge_operator: Option<MergeOperator>,
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            storage: Arc::new(PosixStorage::new()),
            recovery_mode: RecoveryMode::PointInTime,
            families: BTreeMap::new(),
            max_open_files: None,
            block_cache: Some(Arc::new(Cache::new(32 << 20))),
        }
    }
}

impl OpenOptions {
    /// Where the files are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The comparator of a column family, which the MANIFEST says was written with `recorded`.
    pub(crate) fn comparator(&self, family: &str, recorded: &str) -> Result<Comparator> {
        Comparator::built_in(recorded).ok_or_else(|| {
            Error::invalid_argument(format!(
                "column family '{family}' was written with comparator '{recorded}', which is not \
                 known"
            ))
        })
    }

    pub(crate) fn prefix_extractor(&self, family: &str) -> Option<PrefixExtractor> {
        self.families.get(family).and_then(|family| family.prefix_extractor.clone())
    }

    pub(crate) fn table_directories(&self, directory: &Path, _family: &str) -> Vec<PathBuf> {
        vec![directory.to_owned()]
    }

    pub(crate) fn wal_directory(&self, directory: &Path) -> PathBuf {
        directory.to_owned()
    }

    /// temp
    pub fn load(directory: &Path) -> Result<Self> {
        let mut options = Self::default();
        let storage = Arc::clone(&options.storage);
        let newest = storage
            .list(directory)?
            .iter()
            .filter_map(|entry| match FileKind::parse(&entry.name) {
                Some(FileKind::Options(number)) => Some(number),
                _ => None,
            })
            .max();
        let Some(newest) = newest else { return Ok(options) };
        let path = directory.join(FileKind::Options(newest).to_string());
        let file = storage.open(&path, IoMode::Buffered, Purpose::Metadata)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_full_at(&mut bytes, 0, Purpose::Metadata)?;
        let text = String::from_utf8_lossy(&bytes);
        let document = Document::parse(&text)
            .map_err(|error| Error::corruption(&path, error.reason.to_string()))?;
        for name in document.column_families() {
            let Some(section) = document.column_family(name) else { continue };
            let mut family = FamilyOptions::default();
            if let Some(operator) = section.get("merge_operator") {
                let id = operator.trim_start_matches("{id=");
                let id = id.split(';').next().unwrap_or_default();
                family.merge_operator = MergeOperator::built_in(id);
            }
            if let Some(extractor) = section.get("prefix_extractor") {
                let id = extractor.trim_start_matches("{id=");
                let id = id.split(';').next().unwrap_or_default();
                family.prefix_extractor = PrefixExtractor::from_name(id).ok();
            }
            options.families.insert(name.to_owned(), family);
        }
        Ok(options)
    }
}
