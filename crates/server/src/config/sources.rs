//! Collects the values of keys from the file, the environment and the flags. If several sources set
//! a key, the source with the highest precedence applies.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::keys::{self, Relocated};
use super::kinds::Kind;
use super::{ConfigError, ConfigSource, Flags, Result, table};

/// The text of a key's value, and the source of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// The key's path.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) source: ConfigSource,
}

impl Given {
    /// Returns an error about the value.
    pub(super) fn error(&self, message: String) -> ConfigError {
        ConfigError { key: Some(self.path.clone()), source: self.source.clone(), message }
    }

    /// Returns the error for an invalid value. `want` describes valid values.
    pub(super) fn refuse(&self, want: &str) -> ConfigError {
        self.error(format!("'{}' is invalid: expected {want}", self.text))
    }
}

/// The configured values, as texts, by the paths of their keys.
#[derive(Debug, Default)]
pub(super) struct Values {
    given: BTreeMap<String, Given>,
    /// Keys for which the file has a TOML table or array where a single value is expected. Each key
    /// maps to the name of the type that the file has instead, such as "table".
    shapes: BTreeMap<String, &'static str>,
}

impl Values {
    /// Returns the configured value of a key, or its default.
    pub(super) fn get(&self, path: &str) -> Given {
        self.given.get(path).cloned().unwrap_or_else(|| Given {
            path: path.to_owned(),
            text: keys::default(path).to_owned(),
            source: ConfigSource::Default,
        })
    }

    /// Reads the value of a key.
    pub(super) fn read<T>(&self, path: &str, kind: impl Kind<T>) -> Result<T> {
        kind.read(&self.get(path))
    }

    fn set(&mut self, path: &str, text: &str, source: ConfigSource) {
        self.shapes.remove(path);
        let (path, text) = (path.to_owned(), text.to_owned());
        self.given.insert(path.clone(), Given { path, text, source });
    }

    fn is(&self, path: &str, text: &str) -> bool {
        self.given.get(path).is_some_and(|given| given.text.eq_ignore_ascii_case(text))
    }
}

/// The state of reading the sources: the values and warnings collected so far.
struct Collector {
    values: Values,
    warnings: Vec<String>,
    /// Paths of the keys and sections that have no effect and occur in a source.
    ignored: BTreeSet<String>,
}

/// Collects the values of all sources. Also returns warnings.
pub(super) fn collect(
    flags: &Flags,
    environment: &BTreeMap<String, String>,
) -> Result<(Values, Vec<String>)> {
    let mut collector =
        Collector { values: Values::default(), warnings: Vec::new(), ignored: BTreeSet::new() };
    let from_environment = environment.get("IGGY_CONFIG_PATH").filter(|path| !path.is_empty());
    if let Some(path) = flags.config.clone().or_else(|| from_environment.map(PathBuf::from)) {
        collector.file(&path)?;
    }
    for (name, text) in environment {
        collector.variable(name, text)?;
    }
    if let Some(path) = &flags.path {
        let source = ConfigSource::Flag("--path".to_owned());
        collector.values.set("system.path", &path.to_string_lossy(), source);
    }
    if let Some(address) = &flags.address {
        let source = ConfigSource::Flag("--address".to_owned());
        collector.values.set("tcp.address", address, source);
    }
    for (path, text) in &flags.settings {
        collector.flag(path, text)?;
    }
    collector.finish()
}

impl Collector {
    #[expect(clippy::disallowed_methods, reason = "not a log's file, and may be a pipe")]
    fn file(&mut self, path: &Path) -> Result<()> {
        let refuse = |message: String| ConfigError {
            key: None,
            source: ConfigSource::File(path.to_owned()),
            message,
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| refuse(format!("cannot read the configuration: {error}")))?;
        let table: Table = text.parse().map_err(|error| refuse(format!("not TOML: {error}")))?;
        self.table("", &table, &ConfigSource::File(path.to_owned()))
    }

    fn table(&mut self, above: &str, table: &Table, source: &ConfigSource) -> Result<()> {
        for (name, value) in table {
            let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
            refuse_relocated(&path, source)?;
            if keys::find(&path).is_some() {
                match scalar(value) {
                    Some(text) => self.values.set(&path, &text, source.clone()),
                    None => {
                        self.values.set(&path, "", source.clone());
                        self.values.shapes.insert(path, value.type_str());
                    }
                }
            } else if keys::find_ignored(&path).is_some() {
                self.ignored(&path, value, source)?;
            } else if let (Value::Table(below), true) = (value, keys::is_section(&path)) {
                self.table(&path, below, source)?;
            } else {
                let nearest = keys::nearest(&path, names(&path, value.is_table()));
                self.warnings.push(format!(
                    "{path} (in {source}) is not a key and has no effect; the nearest key is {}",
                    nearest.unwrap_or_default()
                ));
            }
        }
        Ok(())
    }

    /// Records a key or section that has no effect, and every key and section in it. Keeps their
    /// values for [`Self::finish`]. That function checks whether the section is turned off, and
    /// whether the section enables an unsupported feature. Relocated keys are rejected.
    fn ignored(&mut self, path: &str, value: &Value, source: &ConfigSource) -> Result<()> {
        self.ignored.insert(path.to_owned());
        if let Value::Table(table) = value {
            for (name, value) in table {
                let path = format!("{path}.{name}");
                refuse_relocated(&path, source)?;
                self.ignored(&path, value, source)?;
            }
        } else if let Some(text) = scalar(value) {
            self.values.set(path, &text, source.clone());
        }
        Ok(())
    }

    fn variable(&mut self, name: &str, text: &str) -> Result<()> {
        let is_other = keys::OTHER_VARIABLES.contains(&name)
            || keys::OTHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if !name.starts_with("IGGY_") || is_other {
            return Ok(());
        }
        let source = ConfigSource::Environment(name.to_owned());
        let is_of = |path: &str| {
            let variable = keys::variable(path);
            let rest = name.strip_prefix(variable.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        if let Some(relocated) = keys::RELOCATED.iter().find(|relocated| is_of(relocated.path)) {
            return Err(relocation(*relocated, relocated.path, source));
        }
        if let Some(key) = table::keys().find(|key| keys::variable(key.path) == name) {
            // An empty variable counts as not set, as in Iggy.
            if !text.is_empty() {
                self.values.set(key.path, text, source);
            }
        } else if let Some(ignored) = keys::IGNORED.iter().find(|ignored| is_of(ignored.path)) {
            let rest = &name[keys::variable(ignored.path).len()..];
            let path = format!("{}{}", ignored.path, rest.to_lowercase().replacen('_', ".", 1));
            if !text.is_empty() {
                self.values.set(&path, text, source);
                self.ignored.insert(path);
            }
        } else {
            let nearest = keys::nearest(name, keys::all_paths().map(keys::variable));
            self.warnings.push(format!(
                "the environment variable {name} is unknown and has no effect; the nearest one is \
                 {}",
                nearest.unwrap_or_default()
            ));
        }
        Ok(())
    }

    fn flag(&mut self, path: &str, text: &str) -> Result<()> {
        let source = ConfigSource::Flag(format!("--set {path}"));
        refuse_relocated(path, &source)?;
        if keys::find(path).is_some() {
            self.values.set(path, text, source);
            return Ok(());
        }
        if keys::find_ignored(path).is_some() {
            self.values.set(path, text, source);
            self.ignored.insert(path.to_owned());
            return Ok(());
        }
        let nearest = keys::nearest(path, names(path, false)).unwrap_or_default();
        let message = format!("no such key; the nearest one is {nearest}");
        Err(ConfigError { key: Some(path.to_owned()), source, message })
    }

    /// Rejects keys that turn on unsupported features, and warns about keys and sections that have
    /// no effect. A section that is turned off causes no warning. One warning covers all keys and
    /// sections that have the same parent section and the same reason.
    fn finish(mut self) -> Result<(Values, Vec<String>)> {
        if let Some((path, shape)) = self.values.shapes.first_key_value() {
            let message = format!("expected a single value, found a TOML {shape}");
            return Err(self.values.get(path).error(message));
        }
        for (path, reason) in keys::REFUSED {
            if self.values.is(path, "true") {
                return Err(self.values.get(path).error(format!("true, but {reason}")));
            }
        }
        let mut groups: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for path in &self.ignored {
            let Some(ignored) = keys::find_ignored(path) else { continue };
            let section = ignored.path;
            let is_switched_off = self.values.is(&format!("{section}.enabled"), "false")
                || keys::REFUSED.iter().any(|(path, _)| *path == section);
            if is_switched_off {
                continue;
            }
            let above = section.rsplit_once('.').map_or("", |(above, _)| above);
            groups.entry((above, ignored.reason)).or_default().insert(section);
        }
        for ((above, reason), paths) in groups {
            // Keys and sections with the same parent section share a warning. Top-level sections
            // have no parent section, so each of them has its own warning.
            if above.is_empty() {
                let each = paths.iter().map(|path| format!("{path} has no effect: {reason}"));
                self.warnings.extend(each);
                continue;
            }
            let verb = if paths.len() == 1 { "has" } else { "have" };
            let paths: Vec<&str> = paths.into_iter().collect();
            self.warnings.push(format!("{} {verb} no effect: {reason}", paths.join(", ")));
        }
        Ok((self.values, self.warnings))
    }
}

/// Returns the text of one value; `None` for tables and arrays.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(is_true) => Some(is_true.to_string()),
        Value::Datetime(time) => Some(time.to_string()),
        Value::Array(_) | Value::Table(_) => None,
    }
}

/// Returns the known names with which an unknown name is compared, in order to suggest the nearest
/// one. If the unknown name is the name of a TOML table, the known names are those of sections at
/// the same depth. Otherwise, they are the names of keys.
fn names(path: &str, is_table: bool) -> impl Iterator<Item = String> {
    let depth = path.matches('.').count() + 1;
    keys::all_paths().map(move |known| {
        if !is_table {
            return known.to_owned();
        }
        let end = known.match_indices('.').nth(depth - 1).map_or(known.len(), |(at, _)| at);
        known[..end].to_owned()
    })
}

fn refuse_relocated(path: &str, source: &ConfigSource) -> Result<()> {
    match keys::find_relocated(path) {
        Some(relocated) => Err(relocation(relocated, path, source.clone())),
        None => Ok(()),
    }
}

fn relocation(relocated: Relocated, path: &str, source: ConfigSource) -> ConfigError {
    ConfigError { key: Some(path.to_owned()), source, message: relocated.message() }
}
