//! `options`: the options in effect, and where they come from.

use std::path::Path;

use serde_json::{Map, Value, json};
use tailwater::OpenOptions;
use tailwater::options::Options;
use tailwater_format::options_text::{Document, Section, SectionKind};
use tailwater_io::{IoMode, Purpose, Storage};

use crate::arguments::OptionsArguments;
use crate::database::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::settings::Settings;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Nobody set it.
    Default,
    /// The OPTIONS file.
    File,
    /// The command line.
    Given,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Given => "--options",
        }
    }
}

pub(crate) fn run(arguments: &OptionsArguments, output: &mut Output) -> Result<Outcome> {
    let given = arguments.common.options.as_deref();
    let storage = storage();
    let settings = Settings::load(&storage, &arguments.directory, given)?;
    if settings.path.is_none() && given.is_none() {
        let directory = arguments.directory.display();
        return Err(Failure::NotFound(format!("there is no OPTIONS file in {directory}")));
    }
    let origins = Origins {
        written: settings.path.as_ref().map(|path| written(&*storage, path)).transpose()?,
        filed: document(&settings.filed),
    };
    let effective = document(&settings.effective);
    if let Some(name) = &arguments.column_family
        && effective.column_family(name).is_none()
    {
        return Err(Failure::NotFound(format!("there is no column family '{name}'")));
    }
    let wanted = |section: &&Section| match (&arguments.column_family, &section.kind) {
        (None, _) => true,
        (Some(name), SectionKind::ColumnFamily(family)) => family == name,
        (Some(name), SectionKind::Table { column_family, .. }) => column_family == name,
        _ => false,
    };
    let sections: Vec<Value> = effective
        .sections
        .iter()
        .filter(wanted)
        .map(|section| print(&origins, section, output))
        .collect::<Result<_>>()?;
    if output.is_json() {
        output.json_document(&json!({
            "file": settings.path.as_ref().map(|path| path.display().to_string()),
            "rocksdb_version": origins.version(),
            "sections": sections,
        }))?;
    }
    Ok(Outcome::Well)
}

/// What tells where values come from.
struct Origins {
    /// What stands in the OPTIONS file.
    written: Option<Document>,
    /// Every option before anything was given over it.
    filed: Document,
}

impl Origins {
    /// The version of RocksDB that the OPTIONS file says wrote it.
    fn version(&self) -> Option<String> {
        self.written.as_ref().map(|document| document.rocksdb_version.to_string())
    }

    fn of(&self, kind: &SectionKind, name: &str, value: &str) -> Origin {
        let find = |document: &Document| {
            let section = document.sections.iter().find(|section| section.kind == *kind);
            section.and_then(|section| section.get(name)).map(str::to_owned)
        };
        if find(&self.filed).as_deref() != Some(value) {
            Origin::Given
        } else if self.written.as_ref().and_then(find).is_some() {
            Origin::File
        } else {
            Origin::Default
        }
    }
}

/// Every option that is written to OPTIONS files, in their order.
fn document(options: &OpenOptions) -> Document {
    let mut names: Vec<&str> = options.column_families().collect();
    if names.is_empty() {
        names.push("default");
    }
    let family = |name: &str| (name.to_owned(), options.column_family(name).clone());
    let column_families = names.into_iter().map(family).collect();
    Options { database: options.database().clone(), column_families }.to_document()
}

fn written(storage: &dyn Storage, path: &Path) -> Result<Document> {
    let file = storage.open(path, IoMode::Buffered, Purpose::Metadata)?;
    let mut bytes = vec![0; file.length()? as usize];
    let count = file.read_full_at(&mut bytes, 0, Purpose::Metadata)?;
    bytes.truncate(count);
    let text = String::from_utf8_lossy(&bytes);
    Ok(Document::parse(&text)
        .map_err(|error| tailwater::Error::corruption(path, error.to_string()))?)
}

/// Prints a section, or makes JSON of it.
fn print(origins: &Origins, section: &Section, output: &mut Output) -> Result<Value> {
    let origin = |name: &str, value: &str| origins.of(&section.kind, name, value);
    let (kind, family) = match &section.kind {
        SectionKind::ColumnFamily(name) => ("column_family", Some(name)),
        SectionKind::Table { column_family, .. } => ("table", Some(column_family)),
        SectionKind::Database | SectionKind::Version => ("database", None),
    };
    if output.is_json() {
        let options: Map<String, Value> = section
            .entries
            .iter()
            .map(|entry| {
                let origin = origin(&entry.name, &entry.value).name();
                (entry.name.clone(), json!({ "value": entry.value, "from": origin }))
            })
            .collect();
        return Ok(json!({ "kind": kind, "column_family": family, "options": options }));
    }
    match (&section.kind, family) {
        (SectionKind::Table { factory, .. }, Some(family)) => {
            output.line(format_args!("tables of column family '{family}' ({factory})"))?;
        }
        (_, Some(family)) => output.line(format_args!("column family '{family}'"))?,
        (_, None) => output.line("database")?,
    }
    let width = section.entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    for entry in &section.entries {
        let from = match origin(&entry.name, &entry.value) {
            Origin::File => String::new(),
            other => format!("    ({})", other.name()),
        };
        let (name, value) = (&entry.name, &entry.value);
        output.line(format_args!("  {name:width$}  {value}{from}"))?;
    }
    output.line("")?;
    Ok(Value::Null)
}
