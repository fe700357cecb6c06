//! Checks the garbage counts of blob files that the MANIFEST records. The garbage of a blob file is
//! the blobs to which no table refers.

use std::collections::BTreeMap;
use std::path::Path;

use tailwater::Result;
use tailwater::inspect::manifest::{self, FamilyState};
use tailwater::inspect::table::TableFile;
use tailwater_format::blob::BlobIndex;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::ValueType;
use tailwater_io::posix::PosixStorage;

/// Asserts for every blob file that the recorded number of garbage blobs is the number of blobs to
/// which no table refers. Returns the number of garbage blobs in all blob files.
pub(crate) fn garbage_is_counted(directory: &Path, context: &str) -> u64 {
    let fail = |error| -> ! { panic!("{context}: {error}") };
    let storage = PosixStorage::new();
    let number = manifest::current(&storage, directory).unwrap_or_else(|error| fail(error));
    let state = manifest::state(&storage, directory, number).unwrap_or_else(|error| fail(error));
    let mut garbage = 0;
    for family in &state.column_families {
        let referred = references(directory, family).unwrap_or_else(|error| fail(error));
        let live: BTreeMap<u64, u64> = family
            .blob_files
            .iter()
            .map(|file| (file.added.number, file.added.blob_count - file.garbage_count))
            .filter(|&(_, live)| live > 0)
            .collect();
        assert_eq!(live, referred, "{context}: live blobs by file in '{}'", family.name);
        garbage += family.blob_files.iter().map(|file| file.garbage_count).sum::<u64>();
    }
    garbage
}

/// Returns, for each blob file number, how many references to its blobs the tables of a column
/// family contain.
fn references(directory: &Path, family: &FamilyState) -> Result<BTreeMap<u64, u64>> {
    let mut references = BTreeMap::new();
    for file in family.levels.iter().flatten() {
        let path = directory.join(FileKind::Table(file.number).to_string());
        let table = TableFile::open(&PosixStorage::new(), &path)?;
        for block in &table.index()?.entries {
            table.data_block(block.handle)?.contents?.for_each(&mut |entry| {
                if entry.value_type() == Some(ValueType::BlobIndex)
                    && let Ok(BlobIndex::Blob(location)) = BlobIndex::decode(entry.value)
                {
                    *references.entry(location.file_number).or_default() += 1;
                }
                Ok(())
            })?;
        }
    }
    Ok(references)
}
