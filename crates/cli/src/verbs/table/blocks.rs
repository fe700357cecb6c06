//! The data blocks of a table, the entries in them, and their bytes.

use serde_json::json;
use tailwater::inspect::table::{BlockReport, Entry, Index, IndexEntry, TableFile};
use tailwater_format::key;

use super::print_entries;
use crate::arguments::TableArguments;
use crate::outcome::{Outcome, Result};
use crate::output::{Output, complain};
use crate::progress::Progress;
use crate::text::{hex, push_hex};

/// Number of bytes on a line of a dump.
const DUMP_WIDTH: usize = 32;

/// A data block that was read, to be shown.
struct Shown<'a> {
    name: &'a str,
    user_keys: bool,
    entry: &'a IndexEntry,
    report: BlockReport,
}

/// Prints the parts of the data blocks that the arguments request. If none is requested, no data
/// block is read.
pub(super) fn show(
    name: &str,
    table: &TableFile,
    index: &Index,
    arguments: &TableArguments,
    output: &mut Output,
) -> Result<Outcome> {
    if !(arguments.blocks || arguments.entries || arguments.raw) {
        return Ok(Outcome::Well);
    }
    if arguments.blocks && !output.is_json() {
        output.line("data blocks")?;
        output.line(format_args!(
            "{:>12}{:>10}  {:18}{:10}  {:>10}{:>9}{:>10}  up to",
            "offset", "bytes", "compression", "checksum", "unpacked", "entries", "restarts"
        ))?;
    }
    let progress = Progress::counting("data blocks");
    progress.at(name);
    let mut outcome = Outcome::Well;
    for entry in &index.entries {
        progress.add(1);
        let report = match table.data_block(entry.handle) {
            Ok(report) => report,
            Err(error) if error.is_corruption() => {
                complain(&error);
                outcome = Outcome::Damage;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let shown = Shown { name, user_keys: index.user_keys, entry, report };
        outcome = outcome.and(shown.check(arguments.blocks));
        if arguments.blocks {
            shown.block(output)?;
        }
        if arguments.raw {
            shown.raw(&table.stored_block(entry.handle)?, output)?;
        }
        if arguments.entries {
            outcome = outcome.and(shown.entries(output)?);
        }
    }
    Ok(outcome)
}

impl Shown<'_> {
    /// Reports problems of the block on standard error. `has_line` says that the block has a line
    /// in the output; a wrong checksum is shown there and not reported again.
    fn check(&self, has_line: bool) -> Outcome {
        let report = &self.report;
        if !report.checksum_holds() && !has_line {
            let (computed, stored) = (report.computed_checksum, report.stored_checksum);
            complain(&format!(
                "{} at offset {}: expected checksum {computed:#010x}, found {stored:#010x}",
                self.name, report.handle.offset
            ));
        }
        if let Err(error) = &report.contents {
            complain(error);
        }
        if report.checksum_holds() && report.contents.is_ok() {
            Outcome::Well
        } else {
            Outcome::Damage
        }
    }

    fn block(&self, output: &mut Output) -> Result<()> {
        let Shown { name, entry, report, .. } = self;
        let handle = report.handle;
        let compression = match report.compression() {
            Some(compression) => compression.option_name().into_owned(),
            None => format!("unknown ({:#04x})", report.compression_type),
        };
        let contents = report.contents.as_ref().ok();
        let entries = contents.and_then(|contents| contents.for_each(&mut |_| Ok(())).ok());
        let unpacked = contents.map(|contents| contents.bytes().len());
        let restarts = contents.map(|contents| contents.layout().restart_count());
        let last = if self.user_keys { &entry.key[..] } else { key::user_key(&entry.key) };
        if output.is_json() {
            let layout = contents.map(|contents| contents.layout());
            let first_key = entry.first_key.as_deref().map(key::user_key);
            return output.json_line(&json!({
                "kind": "block", "file": name, "offset": handle.offset, "bytes": handle.size,
                "compression": compression,
                "checksum": format!("{:08x}", report.stored_checksum),
                "checksum_holds": report.checksum_holds(),
                "unpacked_bytes": unpacked, "entries": entries, "restarts": restarts,
                "hash_index": layout.map(|layout| layout.has_hash_index()),
                "values_apart": layout.map(|layout| layout.values_apart()),
                "up_to": output.bytes(last),
                "first_key": first_key.map(|first_key| output.bytes(first_key)),
            }));
        }
        let checksum = format!("{:08x}", report.stored_checksum);
        let checksum = if report.checksum_holds() { checksum } else { "DAMAGED".to_owned() };
        let number =
            |number: Option<u64>| number.map_or("?".to_owned(), |number| number.to_string());
        output.line(format_args!(
            "{:>12}{:>10}  {compression:18}{checksum:10}  {:>10}{:>9}{:>10}  {}",
            handle.offset,
            handle.size,
            number(unpacked.map(|bytes| bytes as u64)),
            number(entries),
            number(restarts.map(u64::from)),
            output.key(last)
        ))
    }

    /// Prints the entries, up to the first one that cannot be decoded.
    fn entries(&self, output: &mut Output) -> Result<Outcome> {
        let Ok(contents) = &self.report.contents else { return Ok(Outcome::Damage) };
        print_entries(|each| contents.for_each(each), |entry| self.entry(entry, output))
    }

    fn entry(&self, entry: &Entry<'_>, output: &mut Output) -> Result<()> {
        let kind = match entry.value_type() {
            Some(kind) => format!("{kind:?}"),
            None => format!("unknown ({:#04x})", entry.type_number),
        };
        if output.is_json() {
            return output.json_line(&json!({
                "kind": "entry", "file": self.name, "block": self.report.handle.offset,
                "key": output.bytes(entry.user_key), "sequence": entry.sequence, "type": kind,
                "value": output.bytes(entry.value),
            }));
        }
        let (key, value) = (output.key(entry.user_key), output.key(entry.value));
        output.line(format_args!("    {key}  {}  {kind}  {value}", entry.sequence))
    }

    fn raw(&self, stored: &[u8], output: &mut Output) -> Result<()> {
        let offset = self.report.handle.offset;
        if output.is_json() {
            return output.json_line(&json!({
                "kind": "raw", "file": self.name, "offset": offset, "stored": hex(stored),
            }));
        }
        let mut line = String::new();
        for (number, bytes) in stored.chunks(DUMP_WIDTH).enumerate() {
            line.clear();
            push_hex(&mut line, bytes);
            output
                .line(format_args!("    {:>12}  {line}", offset + (number * DUMP_WIDTH) as u64))?;
        }
        Ok(())
    }
}
