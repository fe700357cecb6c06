//! `table`: prints the structure of tables.

mod blocks;

use std::path::Path;

use serde_json::{Value, json};
use tailwater::inspect::table::{Entry, FilterFacts, FilterStructure, Index, TableFile};
use tailwater_format::file_name::FileKind;
use tailwater_format::table::{BlockHandle, Properties, sequence_times};
use tailwater_io::Storage;

use crate::arguments::TableArguments;
use crate::files::files_at;
use crate::live::print_files;
use crate::outcome::{Outcome, Result};
use crate::output::{Output, complain};
use crate::settings::check_options;
use crate::text::{escape, hex};

/// Names, without the prefix `rocksdb.`, of RocksDB's properties whose values are text. RocksDB's
/// other properties are numbers. For a property that RocksDB does not define, the type is guessed
/// from its value.
const TEXT_PROPERTIES: [&str; 14] = [
    "block.based.table.decoupled.partitioned.filters",
    "block.based.table.prefix.filtering",
    "block.based.table.whole.key.filtering",
    "column.family.name",
    "comparator",
    "compression",
    "compression_options",
    "creating.db.identity",
    "creating.host.identity",
    "creating.session.identity",
    "filter.policy",
    "merge.operator",
    "prefix.extractor.name",
    "property.collectors",
];

pub(crate) fn run(arguments: &TableArguments, output: &mut Output) -> Result<Outcome> {
    let number_of = |kind| match kind {
        FileKind::Table(number) | FileKind::LevelDbTable(number) => Some(number),
        _ => None,
    };
    let paths = files_at(&arguments.path, arguments.number, "table", number_of)?;
    check_options(&arguments.path, &arguments.common)?;
    let are_listed = paths != [arguments.path.as_path()];
    print_files(&paths, are_listed, false, output, |storage, path, output| {
        file(storage, path, arguments, output)
    })
}

fn file(
    storage: &dyn Storage,
    path: &Path,
    arguments: &TableArguments,
    output: &mut Output,
) -> Result<Outcome> {
    let table = TableFile::open(storage, path)?;
    let name = path.display().to_string();
    let mut outcome = Outcome::Well;
    let mut note = |error: &tailwater::Error| {
        complain(error);
        outcome = Outcome::Damage;
    };
    table.damage().iter().for_each(&mut note);
    for error in [table.meta_blocks().as_ref().err(), table.properties().as_ref().err()] {
        error.into_iter().for_each(&mut note);
    }
    if let Err(error) = table.dictionary() {
        note(&error);
    }
    let index = table.index().map_err(|error| note(&error)).unwrap_or_default();
    index.damage.iter().for_each(&mut note);
    let filter = table.filter().map_err(|error| note(&error)).unwrap_or_default();
    if output.is_json() {
        output.json_line(&head_json(&name, &table, &index, filter.as_ref()))?;
    } else {
        head(&name, &table, &index, filter.as_ref(), output)?;
    }
    outcome = outcome.and(range_tombstones(&name, &table, output)?);
    Ok(outcome.and(blocks::show(&name, &table, &index, arguments, output)?))
}

fn head(
    name: &str,
    table: &TableFile,
    index: &Index,
    filter: Option<&FilterFacts>,
    output: &mut Output,
) -> Result<()> {
    output.line(format_args!("{name}  {} bytes", table.length()))?;
    let footer = table.footer();
    output.line(format_args!("footer at {}", table.footer_offset()))?;
    output.field(2, "format version", footer.format_version)?;
    output.field(2, "checksums", footer.checksum_type.name())?;
    output.field(2, "metaindex", place(footer.metaindex))?;
    if let Some(handle) = footer.index {
        output.field(2, "index", place(handle))?;
    }
    output.line("metaindex")?;
    for entry in table.meta_blocks().iter().flatten() {
        output.line(format_args!("  {:44}  {}", escape(&entry.name), place(entry.handle)))?;
    }
    if let Ok(properties) = table.properties() {
        output.line("properties")?;
        let properties = shown_properties(properties);
        let width = properties.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in properties {
            output.line(format_args!("  {name:width$}  {value}"))?;
        }
    }
    output.line("index")?;
    output.field(2, "root", place(index.root))?;
    output.field(2, "data blocks", index.entries.len())?;
    output.field(2, "keys", if index.user_keys { "user keys" } else { "internal keys" })?;
    if !index.partitions.is_empty() {
        output.field(2, "partitions", index.partitions.len())?;
    }
    let Some(filter) = filter else { return output.line("no filter") };
    output.line("filter")?;
    output.field(2, "kind", structure(filter.structure))?;
    output.field(2, "read by", &filter.policy)?;
    output.field(2, "bytes", filter.bytes)?;
    if !filter.partitions.is_empty() {
        output.field(2, "partitions", filter.partitions.len())?;
    }
    output.field(2, "holds", filter_keys(filter))
}

fn head_json(name: &str, table: &TableFile, index: &Index, filter: Option<&FilterFacts>) -> Value {
    let footer = table.footer();
    let meta_blocks: Vec<Value> = table
        .meta_blocks()
        .iter()
        .flatten()
        .map(|entry| json!({ "name": escape(&entry.name), "block": place_json(entry.handle) }))
        .collect();
    let properties: Option<serde_json::Map<String, Value>> =
        table.properties().as_ref().ok().map(|properties| {
            let shown = shown_properties(properties).into_iter();
            shown.map(|(name, value)| (name, json!(value))).collect()
        });
    json!({
        "kind": "table",
        "file": name,
        "bytes": table.length(),
        "footer": {
            "offset": table.footer_offset(),
            "format_version": footer.format_version,
            "checksum_type": footer.checksum_type.name(),
            "base_context": footer.base_context,
            "metaindex": place_json(footer.metaindex),
            "index": footer.index.map(place_json),
        },
        "meta_blocks": meta_blocks,
        "properties": properties,
        "index": {
            "root": place_json(index.root),
            "user_keys": index.user_keys,
            "data_blocks": index.entries.len(),
            "partitions": index.partitions.len(),
        },
        "filter": filter.map(|filter| json!({
            "structure": structure(filter.structure),
            "policy": filter.policy,
            "block": place_json(filter.handle),
            "bytes": filter.bytes,
            "partitions": filter.partitions.len(),
            "whole_keys": filter.whole_keys,
            "prefix_extractor": filter.prefix_extractor,
        })),
    })
}

fn place(handle: BlockHandle) -> String {
    format!("{} bytes at {}", handle.size, handle.offset)
}

fn place_json(handle: BlockHandle) -> Value {
    json!({ "offset": handle.offset, "bytes": handle.size })
}

fn structure(structure: FilterStructure) -> String {
    match structure {
        FilterStructure::Empty => "empty".to_owned(),
        FilterStructure::Bloom { probes } => format!("Bloom, {probes} probes"),
        FilterStructure::Ribbon { blocks } => format!("Ribbon, {blocks} blocks"),
        FilterStructure::LegacyBloom { probes } => format!("legacy Bloom, {probes} probes"),
        FilterStructure::Unknown { marker } => {
            format!("unknown ({marker:#04x}): matches every key")
        }
        other => format!("{other:?}"),
    }
}

fn filter_keys(filter: &FilterFacts) -> String {
    let prefixes = filter.prefix_extractor.as_ref().map(|name| format!("prefixes ({name})"));
    let keys = filter.whole_keys.then(|| "whole keys".to_owned());
    let parts: Vec<String> = keys.into_iter().chain(prefixes).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
}

/// Returns the properties by RocksDB's names, with readable values.
fn shown_properties(properties: &Properties) -> Vec<(String, String)> {
    let entries = properties.to_entries().into_iter();
    entries.map(|(name, value)| (escape(&name), shown_value(&name, &value))).collect()
}

/// Returns a property's value in readable form: text escaped, numbers in decimal, everything else
/// in hex.
fn shown_value(name: &[u8], value: &[u8]) -> String {
    let text = str::from_utf8(name).unwrap_or_default();
    let fixed =
        text.starts_with("rocksdb.external_sst_file.") || text.ends_with("table.index.type");
    if fixed && value.len() <= 8 {
        let mut bytes = [0; 8];
        bytes[..value.len()].copy_from_slice(value);
        return u64::from_le_bytes(bytes).to_string();
    }
    if text == "rocksdb.seqno.time.map"
        && let Ok(samples) = sequence_times::decode(value)
    {
        let shown = samples.iter().map(|it| format!("{}->{}", it.sequence, it.time_s));
        return shown.collect::<Vec<_>>().join(",");
    }
    let is_text = TEXT_PROPERTIES.iter().any(|name| text.strip_prefix("rocksdb.") == Some(name));
    match tailwater_format::varint::decode_varint64(value) {
        Some((number, length)) if !is_text && length == value.len() => number.to_string(),
        _ if value.iter().all(|byte| (b' '..=b'~').contains(byte)) => escape(value),
        _ => format!("0x{}", hex(value)),
    }
}

/// Prints the range tombstones.
fn range_tombstones(name: &str, table: &TableFile, output: &mut Output) -> Result<Outcome> {
    let mut is_first = true;
    print_entries(
        |each| table.range_tombstones(each),
        |entry| {
            let Entry { user_key: start, value: end, sequence, .. } = *entry;
            if output.is_json() {
                return output.json_line(&json!({
                    "kind": "range_tombstone", "file": name, "start": output.bytes(start),
                    "end": output.bytes(end), "sequence": sequence,
                }));
            }
            if std::mem::take(&mut is_first) {
                output.line("range tombstones")?;
            }
            let (start, end) = (output.key(start), output.key(end));
            output.line(format_args!("  sequence {sequence:>10}  {start} .. {end}"))
        },
    )
}

/// A function that is called with every entry that is read.
type Each<'a> = &'a mut dyn FnMut(&Entry<'_>) -> tailwater::Result<()>;

/// Calls `print` with every entry that `read` finds. An error of `read` is reported on standard
/// error, as damage.
fn print_entries(
    read: impl FnOnce(Each<'_>) -> tailwater::Result<u64>,
    mut print: impl FnMut(&Entry<'_>) -> Result<()>,
) -> Result<Outcome> {
    // An error of `print` is kept here, because `read` can return only errors from reading.
    let mut failure = None;
    let done = read(&mut |entry| {
        if failure.is_none() {
            failure = print(entry).err();
        }
        Ok(())
    });
    match (failure, done) {
        (Some(failure), _) => Err(failure),
        (None, Ok(_)) => Ok(Outcome::Well),
        (None, Err(error)) => {
            complain(&error);
            Ok(Outcome::Damage)
        }
    }
}
