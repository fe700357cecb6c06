//! `options`: the options in effect, and their origins.

use std::path::Path;

use serde_json::{Map, Value, json};
use tailwater::options::{OptionTable as _, Options, TailwaterOptions};
use tailwater::{OpenOptions, OptionWithoutEffect};
use tailwater_format::options_text::{Document, Section, SectionKind};
use tailwater_io::Purpose;

use crate::arguments::{OptionsArguments, Place};
use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::settings::Settings;

/// The origin of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The value is the option's default.
    Default,
    /// The value is from the OPTIONS file, or from the file of Tailwater's own options.
    File,
    /// The value is from the command line (`--options`).
    Overrides,
}

impl Origin {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::Overrides => "--options",
        }
    }
}

pub(crate) fn run(arguments: &OptionsArguments, output: &mut Output) -> Result<Outcome> {
    let Place { directory, common } = &arguments.place;
    let settings = Settings::load(directory, common)?;
    if settings.path.is_none() && common.options.is_none() {
        let directory = directory.display();
        return Err(Failure::NotFound(format!("no OPTIONS file in {directory}")));
    }
    let origins = Origins {
        written: settings.path.as_deref().map(written).transpose()?,
        filed: document(&settings.filed.effective(directory)),
    };
    let effective = document(&settings.effective.effective(directory));
    if let Some(name) = &arguments.column_family
        && effective.column_family(name).is_none()
    {
        return Err(Failure::NotFound(format!("no column family '{name}'")));
    }
    if arguments.without_effect {
        return without_effect(arguments, &settings, &origins, output);
    }
    let wanted = |section: &&Section| match (&arguments.column_family, &section.kind) {
        (None, _) => true,
        (Some(name), SectionKind::ColumnFamily(family)) => family == name,
        (Some(name), SectionKind::Table { column_family, .. }) => column_family == name,
        _ => false,
    };
    let sections = effective.sections.iter().filter(wanted);
    let mut groups: Vec<Group> = sections.map(|section| Group::of(section, &origins)).collect();
    if arguments.column_family.is_none() {
        groups.push(Group::of_our_own(&settings));
    }
    let sections: Vec<Value> =
        groups.iter().map(|group| group.print(output)).collect::<Result<_>>()?;
    if output.is_json() {
        output.json_document(&json!({
            "file": settings.file(),
            "rocksdb_version": origins.version(),
            "sections": sections,
        }))?;
    }
    Ok(Outcome::Well)
}

/// Prints the options that are set and have no effect.
fn without_effect(
    arguments: &OptionsArguments,
    settings: &Settings,
    origins: &Origins,
    output: &mut Output,
) -> Result<Outcome> {
    let mut options = settings.effective.without_effect();
    if let Some(name) = &arguments.column_family {
        options.retain(|option| option.column_families.contains(name));
    }
    if !output.is_json() {
        options.iter().try_for_each(|option| output.line(option))?;
        return Ok(Outcome::Well);
    }
    let document = |option: &OptionWithoutEffect| {
        json!({
            "name": option.name,
            "value": option.value,
            "is_of_tables": option.is_of_tables,
            "column_families": option.column_families,
            "reason": option.reason,
        })
    };
    output.json_document(&json!({
        "file": settings.file(),
        "rocksdb_version": origins.version(),
        "without_effect": options.iter().map(document).collect::<Vec<_>>(),
    }))?;
    Ok(Outcome::Well)
}

/// The options from which [`Origins::of`] determines the origin of a value.
struct Origins {
    /// The contents of the OPTIONS file.
    written: Option<Document>,
    /// All options without the overrides of the command line: those of the OPTIONS file, and
    /// defaults.
    filed: Document,
}

impl Origins {
    /// Returns the version of RocksDB that wrote the OPTIONS file, according to the file.
    fn version(&self) -> Option<String> {
        self.written.as_ref().map(|document| document.rocksdb_version.to_string())
    }

    fn of(&self, kind: &SectionKind, name: &str, value: &str) -> Origin {
        let find = |document: &Document| {
            let section = document.sections.iter().find(|section| section.kind == *kind);
            section.and_then(|section| section.get(name)).map(str::to_owned)
        };
        if find(&self.filed).as_deref() != Some(value) {
            Origin::Overrides
        } else if self.written.as_ref().and_then(find).is_some() {
            Origin::File
        } else {
            Origin::Default
        }
    }
}

/// Returns the options as an OPTIONS file would contain them, in that file's order.
fn document(options: &OpenOptions) -> Document {
    let mut names: Vec<&str> = options.column_families().collect();
    if names.is_empty() {
        names.push("default");
    }
    let family = |name: &str| (name.to_owned(), options.column_family(name).clone());
    let column_families = names.into_iter().map(family).collect();
    Options { database: options.database().clone(), column_families }.to_document()
}

fn written(path: &Path) -> Result<Document> {
    let bytes = storage().read_file(path, u64::MAX, Purpose::Metadata)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(Document::parse(&text)
        .map_err(|error| tailwater::Error::corruption(path, error.to_string()))?)
}

/// Options that are printed together under one title.
struct Group {
    kind: &'static str,
    column_family: Option<String>,
    title: String,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    value: String,
    origin: Origin,
}

impl Group {
    /// Returns the options of one section, and the [`Origin`] of each option's value.
    fn of(section: &Section, origins: &Origins) -> Self {
        let (kind, column_family, title) = match &section.kind {
            SectionKind::ColumnFamily(name) => {
                ("column_family", Some(name), format!("column family '{name}'"))
            }
            SectionKind::Table { factory, column_family: name } => {
                ("table", Some(name), format!("tables of column family '{name}' ({factory})"))
            }
            SectionKind::Database | SectionKind::Version => {
                ("database", None, "database".to_owned())
            }
        };
        let entries = section.entries.iter().map(|entry| Entry {
            name: entry.name.clone(),
            value: entry.value.clone(),
            origin: origins.of(&section.kind, &entry.name, &entry.value),
        });
        Self { kind, column_family: column_family.cloned(), title, entries: entries.collect() }
    }

    /// Returns the options that exist only in Tailwater, and the [`Origin`] of each option's value.
    /// These options are stored in a file of their own, not in the OPTIONS file.
    fn of_our_own(settings: &Settings) -> Self {
        let [effective, filed] =
            [&settings.effective, &settings.filed].map(|options| &options.database().tailwater);
        let unset = TailwaterOptions::default();
        let entries = TailwaterOptions::table().iter().map(|info| {
            let [value, filed, unset] =
                [effective, filed, &unset].map(|options| info.value_in(options));
            let origin = match () {
                () if value != filed => Origin::Overrides,
                () if value != unset => Origin::File,
                () => Origin::Default,
            };
            Entry { name: info.name.to_owned(), value, origin }
        });
        let title = "Tailwater's own".to_owned();
        Self { kind: "tailwater", column_family: None, title, entries: entries.collect() }
    }

    /// Prints the group of options. If the output format is JSON, returns the group as JSON
    /// instead.
    fn print(&self, output: &mut Output) -> Result<Value> {
        if output.is_json() {
            let options: Map<String, Value> = self
                .entries
                .iter()
                .map(|Entry { name, value, origin }| {
                    (name.clone(), json!({ "value": value, "from": origin.name() }))
                })
                .collect();
            return Ok(json!({
                "kind": self.kind,
                "column_family": self.column_family,
                "options": options,
            }));
        }
        output.line(format_args!("{}", self.title))?;
        let width = self.entries.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
        for Entry { name, value, origin } in &self.entries {
            let from = match origin {
                Origin::File => String::new(),
                other => format!("    ({})", other.name()),
            };
            output.line(format_args!("  {name:width$}  {value}{from}"))?;
        }
        output.line("")?;
        Ok(Value::Null)
    }
}
