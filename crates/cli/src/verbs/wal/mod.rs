//! `wal`: prints the records of write-ahead logs, and where recovery would stop reading a log.

mod summary;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tailwater::inspect::manifest;
use tailwater::inspect::wal::{Irregularity, IrregularityKind, LogBatch, LogItem, LogReader};
use tailwater::options::DbOptions;
use tailwater_format::batch::Record;
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::ZSTD;
use tailwater_io::Storage;

use crate::arguments::{Common, WalArguments};
use crate::files::{directory_of, files_at, storage};
use crate::live::print_files;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain};
use crate::settings::Settings;
use crate::text::counted;

use summary::{Summary, verdict_name};

/// The arguments of the functions that print a log.
struct Walk<'a> {
    arguments: &'a WalArguments,
    options: &'a DbOptions,
    /// The names of the column families, if a MANIFEST provides them.
    families: BTreeMap<u32, String>,
}

pub(crate) fn run(arguments: &WalArguments, output: &mut Output) -> Result<Outcome> {
    let directory = directory_of(&arguments.directory)?;
    let settings = settings(directory, &arguments.common)?;
    let paths = logs(arguments, &settings)?;
    let families = manifest::current_state(&*storage(), directory)
        .map(|state| {
            let families = state.column_families.into_iter();
            families.map(|family| (family.id, family.name)).collect()
        })
        .unwrap_or_default();
    let walk = Walk { arguments, options: settings.effective.database(), families };
    let are_listed = arguments.files.is_empty() && paths != [arguments.directory.as_path()];
    print_files(&paths, are_listed, true, output, |storage, path, output| {
        walk.log(storage, path, output)
    })
}

/// Loads the database's settings, which are needed to find and read its logs. If the OPTIONS file
/// is unreadable, uses the default settings.
fn settings(directory: &Path, given: &Common) -> Result<Settings> {
    match Settings::load(directory, given) {
        Err(Failure::Engine(error)) => {
            complain(&error);
            Settings::defaults(given)
        }
        settings => settings,
    }
}

fn wal_number(kind: FileKind) -> Option<u64> {
    match kind {
        FileKind::Wal(number) => Some(number),
        _ => None,
    }
}

/// Returns the logs that the arguments name. If the arguments name no logs, returns all logs in the
/// database's directory. If that directory has no logs, returns all logs in `wal_dir`.
fn logs(arguments: &WalArguments, settings: &Settings) -> Result<Vec<PathBuf>> {
    let directory = &arguments.directory;
    let elsewhere = settings.effective.database().wal_dir.as_str();
    if arguments.files.is_empty() {
        return match files_at(directory, None, "log", wal_number) {
            Err(Failure::NotFound(_)) if !elsewhere.is_empty() => {
                files_at(Path::new(elsewhere), None, "log", wal_number)
            }
            found => found,
        };
    }
    let path = |name: &String| match name.parse() {
        Ok(number) => directory.join(FileKind::Wal(number).to_string()),
        Err(_) => directory.join(name),
    };
    Ok(arguments.files.iter().map(path).collect())
}

impl Walk<'_> {
    fn log(&self, storage: &dyn Storage, path: &Path, output: &mut Output) -> Result<Outcome> {
        let mut reader = LogReader::open(storage, path)?;
        let name = path.display().to_string();
        let compression = match reader.compression() {
            None => "not compressed".to_owned(),
            Some(ZSTD) => "compressed with zstd".to_owned(),
            Some(other) => format!("compressed with {other}, which logs do not support"),
        };
        if !output.is_json() {
            output.line(format_args!("{name}  {} bytes, {compression}", reader.length()))?;
            output.line(format_args!("{:>12}{:>12}  what", "offset", "bytes"))?;
        }
        let mut summary = Summary::new(reader.recovery_end(self.options)?);
        let mut held: Option<Irregularity> = None;
        loop {
            let item = reader.next_item()?;
            if let (Some(LogItem::Irregularity(next)), Some(held)) = (&item, &mut held)
                && held.merge(next)
            {
                continue;
            }
            if let Some(irregularity) = held.take() {
                self.irregular(&name, &irregularity, &mut summary, output)?;
            }
            match item {
                None => break,
                Some(LogItem::Irregularity(irregularity)) => held = Some(irregularity),
                Some(LogItem::Batch(batch)) => self.batch(&name, &batch, &mut summary, output)?,
                Some(item) => about_the_log(&name, &item, output)?,
            }
        }
        summary.print(&name, &reader, self.options.wal_recovery_mode, output)?;
        Ok(summary.outcome)
    }

    fn batch(
        &self,
        name: &str,
        batch: &LogBatch<'_>,
        summary: &mut Summary,
        output: &mut Output,
    ) -> Result<()> {
        let at = batch.placement;
        if let Some(refusal) = &batch.problem {
            summary.note(Outcome::Damage);
            let reason = format!("a batch that recovery rejects: {}", refusal.reason());
            print_line(output, name, "malformed", at.offset, at.length, &reason, &[])?;
            return Ok(());
        }
        summary.count(batch);
        if output.is_json() {
            let operations: Option<Vec<Value>> = self.arguments.verbose.then(|| {
                batch
                    .operations()
                    .map(|operation| self.operation_json(output, &operation))
                    .collect()
            });
            return output.json_line(&json!({
                "kind": "batch", "file": name, "offset": at.offset, "length": at.length,
                "fragments": at.fragments, "recyclable": at.recyclable,
                "compressed": at.compressed, "payload_bytes": batch.payload.len(),
                "sequence": batch.sequence, "count": batch.count, "operations": operations,
            }));
        }
        let mut line = format!(
            "{:>12}{:>12}  batch  sequence {}, {}",
            at.offset,
            at.length,
            batch.sequence,
            counted(u64::from(batch.count), "operation", "operations")
        );
        if at.fragments > 1 {
            line.push_str(&format!(", {} fragments", at.fragments));
        }
        if at.recyclable {
            line.push_str(", recyclable");
        }
        if at.compressed {
            line.push_str(&format!(", {} bytes before compression", batch.payload.len()));
        }
        output.line(line)?;
        if self.arguments.verbose {
            for operation in batch.operations() {
                output.line(self.operation_line(output, &operation))?;
            }
        }
        Ok(())
    }

    fn operation_line(&self, output: &Output, operation: &Record<'_>) -> String {
        let Record { column_family, kind, key, value, .. } = operation;
        let what = format!("{kind:?}");
        if kind.value_type().is_none() {
            let bytes = if key.is_empty() { value } else { key };
            return format!("{:>26}{what:13} {}", "", output.key(bytes));
        }
        let family = match self.families.get(column_family) {
            Some(name) => name.clone(),
            None => format!("column family {column_family}"),
        };
        let key = output.key(key);
        if value.is_empty() {
            return format!("{:>26}{what:13} {family}  {key}", "");
        }
        format!("{:>26}{what:13} {family}  {key}  {}", "", output.key(value))
    }

    fn operation_json(&self, output: &Output, operation: &Record<'_>) -> Value {
        json!({
            "operation": format!("{:?}", operation.kind),
            "column_family_id": operation.column_family,
            "column_family": self.families.get(&operation.column_family),
            "key": output.bytes(operation.key),
            "value": output.bytes(operation.value),
        })
    }

    fn irregular(
        &self,
        name: &str,
        irregularity: &Irregularity,
        summary: &mut Summary,
        output: &mut Output,
    ) -> Result<()> {
        let Irregularity { kind, offset, length, count, reason, .. } = irregularity;
        summary.note_what_is_behind(irregularity);
        let what = match kind {
            // Recovery ends the log where the records of an earlier use of its file begin. After
            // that point, incomplete records are not damage.
            IrregularityKind::Damage | IrregularityKind::Torn if summary.is_stale_behind() => {
                Outcome::Well
            }
            IrregularityKind::Damage | IrregularityKind::Undecompressable => Outcome::Damage,
            IrregularityKind::Torn => Outcome::TornTail,
            IrregularityKind::Stale if irregularity.loses_data => Outcome::TornTail,
            _ => Outcome::Well,
        };
        summary.note(what);
        summary.count_empty(irregularity);
        let reason = match (kind, count) {
            (IrregularityKind::Stale, 2..) => format!("{count} fragments {reason}"),
            _ => reason.clone(),
        };
        let verdict = json!(verdict_name(summary.verdict_at(*offset)));
        print_line(output, name, kind.name(), *offset, *length, &reason, &[("verdict", verdict)])
    }
}

/// Prints an item that describes a log rather than its contents; does nothing for other items.
fn about_the_log(name: &str, item: &LogItem<'_>, output: &mut Output) -> Result<()> {
    match item {
        LogItem::TimestampSizes { offset, sizes } => {
            let reason = format!("column families and sizes in bytes: {sizes:?}");
            print_line(output, name, "timestamp_sizes", *offset, 0, &reason, &[])
        }
        LogItem::Predecessor { offset, predecessor } => {
            let reason = format!(
                "the previous log is {}, {} bytes, up to sequence {}",
                FileKind::Wal(predecessor.log_number),
                predecessor.size,
                predecessor.last_sequence
            );
            let facts = [
                ("log_number", json!(predecessor.log_number)),
                ("log_bytes", json!(predecessor.size)),
                ("last_sequence", json!(predecessor.last_sequence)),
            ];
            print_line(output, name, "predecessor", *offset, 0, &reason, &facts)
        }
        _ => Ok(()),
    }
}

fn print_line(
    output: &mut Output,
    name: &str,
    kind: &str,
    offset: u64,
    length: u64,
    reason: &str,
    facts: &[(&str, Value)],
) -> Result<()> {
    if !output.is_json() {
        return output.line(format_args!("{offset:>12}{length:>12}  {kind}  {reason}"));
    }
    let mut line = json!({
        "kind": kind, "file": name, "offset": offset, "length": length, "reason": reason,
    });
    for (name, value) in facts {
        line[*name] = value.clone();
    }
    output.json_line(&line)
}
