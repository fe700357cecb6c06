//! Properties of blob files.

use std::collections::BTreeMap;

use super::{hex, saturating_sum};
use crate::column_family::ColumnFamily;
use crate::version::{BlobFileMetadata, Version};

/// Returns a numeric property of blob files.
pub(super) fn number(family: &ColumnFamily, version: &Version, name: &str) -> Option<u64> {
    Some(match name {
        "num-blob-files" => version.blob_files().len() as u64,
        "total-blob-file-size" => total_blob_file_bytes(family),
        "live-blob-file-size" => blob_file_bytes(version),
        "live-blob-file-garbage-size" => blob_garbage_bytes(version),
        _ => return None,
    })
}

/// Returns the total size of all blob files that are in a version still in use.
fn total_blob_file_bytes(family: &ColumnFamily) -> u64 {
    let versions = family.live_versions();
    let files = versions.iter().flat_map(|version| version.blob_files());
    let sizes: BTreeMap<u64, u64> =
        files.map(|(&number, file)| (number, file.file_bytes())).collect();
    saturating_sum(sizes.into_values())
}

/// Describes a blob file in the format of `rocksdb.sstables`.
pub(super) fn blob_file_text(version: &Version, file: &BlobFileMetadata) -> String {
    let added = &file.added;
    let mut linked: Vec<u64> = version
        .files()
        .filter(|(_, table)| table.added().oldest_blob_file_number == Some(added.number))
        .map(|(_, table)| table.number())
        .collect();
    linked.sort_unstable();
    let linked: String = linked.iter().map(|number| format!(" {number}")).collect();
    format!(
        "blob_file_number: {} total_blob_count: {} total_blob_bytes: {} checksum_method: {} \
         checksum_value: {} linked_ssts: {{{linked} }} garbage_blob_count: {} \
         garbage_blob_bytes: {}",
        added.number,
        added.blob_count,
        added.blob_bytes,
        added.checksum_function,
        hex(&added.checksum),
        file.garbage_count,
        file.garbage_bytes
    )
}

pub(super) fn blob_stats(version: &Version) -> String {
    let (total, garbage) = (blob_file_bytes(version), blob_garbage_bytes(version));
    let amplification = if total > garbage { total as f64 / (total - garbage) as f64 } else { 0.0 };
    format!(
        "Number of blob files: {}\nTotal size of blob files: {total}\n\
         Total size of garbage in blob files: {garbage}\nBlob file space amplification: {}\n",
        version.blob_files().len(),
        six_digits(amplification)
    )
}

/// Formats a number, which is 0 or at least 1, with at most six significant digits.
fn six_digits(number: f64) -> String {
    let whole_digits = (number.max(1.0).log10() as usize) + 1;
    let text = format!("{number:.*}", 6usize.saturating_sub(whole_digits));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

pub(super) fn blob_file_bytes(version: &Version) -> u64 {
    saturating_sum(version.blob_files().values().map(BlobFileMetadata::file_bytes))
}

pub(super) fn blob_garbage_bytes(version: &Version) -> u64 {
    saturating_sum(version.blob_files().values().map(|file| file.garbage_bytes))
}
