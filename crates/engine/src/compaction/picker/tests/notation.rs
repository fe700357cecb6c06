//! Tables and compactions as text.
//!
//! A table is `L1 7:[a..f]@10-20 3M marked`: level, number, first and last user key, sequence
//! numbers, size, then further attributes. `[a..f)` ends with a range tombstone up to `f`;
//! `[a#9..f#3]` gives the sequence numbers of the keys themselves.

use std::fmt::Write;
use std::sync::Arc;

use tailwater_format::version_edit::NewFile;

use super::world::{exclusive_end, internal_key};
use crate::table::{FileMetadata, FileStatistics};
use crate::version::{Compaction, CompactionKind};

/// Parses a table and its statistics from a line.
pub(super) fn parse_table(line: &str) -> (NewFile, Option<FileStatistics>) {
    let mut words = line.split_whitespace();
    let level = words.next().and_then(|word| word.strip_prefix('L')).expect("a level");
    let (number, rest) = words.next().and_then(|word| word.split_once(':')).expect("a number");
    let (keys, sequences) = rest.split_once('@').unwrap_or((rest, "1-1"));
    let (first, last) = sequences.split_once('-').expect("sequence numbers");
    let mut file = NewFile {
        level: level.parse().expect("a level"),
        number: number.parse().expect("a number"),
        smallest_sequence: first.parse().expect("a sequence number"),
        largest_sequence: last.parse().expect("a sequence number"),
        size: parse_size(words.next().expect("a size")),
        ..NewFile::default()
    };
    (file.smallest, file.largest) = parse_keys(keys, &file);
    let mut statistics = FileStatistics::default();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, "0"));
        let value = parse_size(value);
        match name {
            "marked" => file.marked_for_compaction = true,
            "ancestor" => file.oldest_ancestor_time_s = value,
            "created" => file.creation_time_s = value,
            "covers" => file.compensated_range_deletion_size = value,
            "epoch" => file.epoch_number = value,
            "path" => file.path_id = u8::try_from(value).expect("a path id"),
            "entries" => statistics.entries = value,
            "deletions" => statistics.deletions = value,
            "range_deletions" => statistics.range_deletions = value,
            "keys" => statistics.raw_key_bytes = value,
            "values" => statistics.raw_value_bytes = value,
            _ => panic!("unknown attribute '{name}' of a table"),
        }
    }
    let is_known = statistics != FileStatistics::default();
    (file, is_known.then_some(statistics))
}

fn parse_keys(keys: &str, file: &NewFile) -> (Vec<u8>, Vec<u8>) {
    let (first, last) =
        keys.strip_prefix('[').and_then(|keys| keys.split_once("..")).expect("keys");
    let bound = |text: &str, sequence: u64| match text.split_once('#') {
        Some((key, sequence)) => internal_key(key, sequence.parse().expect("a sequence number")),
        None => internal_key(text, sequence),
    };
    let smallest = bound(first, file.largest_sequence);
    let largest = match last.strip_suffix(')') {
        Some(last) => exclusive_end(last),
        None => bound(last.strip_suffix(']').expect("keys"), file.smallest_sequence),
    };
    (smallest, largest)
}

/// Parses a number, optionally in KiB, MiB or GiB.
pub(super) fn parse_size(text: &str) -> u64 {
    let units = [('K', 10), ('M', 20), ('G', 30)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(*unit));
    let digits = unit.map_or(text, |(unit, _)| text.trim_end_matches(*unit));
    let number: u64 = digits.parse().unwrap_or_else(|_| panic!("'{text}' is not a number"));
    number << unit.map_or(0, |(_, shift)| *shift)
}

/// Prints a number in the format of [`parse_size`].
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        u64::MAX => "any".to_owned(),
        0 => "0".to_owned(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Prints a compaction in one line, without attributes that have default values.
pub(super) fn describe(compaction: &Compaction, max_compaction_bytes: u64) -> String {
    let inputs: Vec<String> = compaction
        .inputs
        .iter()
        .map(|input| format!("L{}: {}", input.level, numbers(&input.files)))
        .collect();
    let mut text =
        format!("{} -> L{}, {:?}", inputs.join(" + "), compaction.output_level, compaction.reason);
    if compaction.kind == CompactionKind::Move {
        text.push_str(", move");
    }
    if compaction.is_bottommost {
        text.push_str(", bottommost");
    }
    let _ = write!(text, ", outputs {}", size(compaction.max_output_file_bytes));
    if compaction.max_overlap_bytes != max_compaction_bytes {
        let _ = write!(text, ", overlap {}", size(compaction.max_overlap_bytes));
    }
    if !compaction.grandparents.is_empty() {
        let _ = write!(text, ", grandparents {}", numbers(&compaction.grandparents));
    }
    if compaction.max_subcompactions != 1 {
        let _ = write!(text, ", {} parts", compaction.max_subcompactions);
    }
    text
}

fn numbers(files: &[Arc<FileMetadata>]) -> String {
    let numbers: Vec<String> = files.iter().map(|file| file.number().to_string()).collect();
    numbers.join(" ")
}
