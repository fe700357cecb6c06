//! The contents of a database: all keys with their values, by column family. Extra keys and the
//! extra column family, which a killed run may leave, are not part of the contents.
#![expect(clippy::disallowed_methods, reason = "the reference file is not a database's")]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::Path;

use tailwater::{ColumnFamily, Db, ReadOptions};
use tailwater_testkit::dump::{self, Entry};

use crate::extra::{EXTRA_FAMILY, EXTRA_KEYS};
use crate::text;

/// Maximum number of differences that are reported.
const SHOWN_MAX: usize = 10;

/// The contents of a database: entries by column family, in key order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    families: BTreeMap<String, Vec<Pair>>,
}

/// A key and its value.
pub(crate) type Pair = (Box<[u8]>, Box<[u8]>);

impl Contents {
    /// Reads all contents of a database with forward iterators.
    pub(crate) fn read(db: &Db) -> Result<Self, String> {
        let mut contents = Self::default();
        for family in db.column_families() {
            if family.name() != EXTRA_FAMILY {
                let pairs = read_family(db, &family)?;
                contents.families.insert(family.name().to_owned(), pairs);
            }
        }
        Ok(contents)
    }

    /// Reads a reference file, which contains the expected contents of the database. Returns `None`
    /// if the file does not exist.
    pub(crate) fn load(path: &Path) -> Result<Option<Self>, String> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut contents = Self::default();
        for Entry { family, key, value } in dump::parse(&bytes) {
            let pairs = contents.families.entry(family).or_default();
            pairs.push((key.into(), value.into()));
        }
        Ok(Some(contents))
    }

    /// Writes the contents to a reference file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let entries = self.families.iter().flat_map(|(family, pairs)| {
            pairs.iter().map(|(key, value)| Entry {
                family: family.clone(),
                key: key.to_vec(),
                value: value.to_vec(),
            })
        });
        let bytes = dump::bytes(&entries.collect::<Vec<_>>());
        // The file is written under another name and then renamed. A kill therefore leaves no
        // incomplete reference file.
        let unfinished = path.with_extension("new");
        fs::write(&unfinished, bytes)
            .and_then(|()| fs::rename(&unfinished, path))
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns an error that lists the differences from `reference`, if there are any.
    pub(crate) fn compare(&self, reference: &Self) -> Result<(), String> {
        let mut differences = Vec::new();
        let names = self.families.keys().chain(reference.families.keys());
        for name in names.collect::<std::collections::BTreeSet<_>>() {
            differ(name, self.family(name), reference.family(name), &mut differences);
        }
        if differences.is_empty() {
            return Ok(());
        }
        let (count, shown) = (differences.len(), differences.iter().take(SHOWN_MAX));
        let shown: Vec<_> = shown.cloned().collect();
        Err(format!("the contents changed in {count} places:\n    {}", shown.join("\n    ")))
    }

    /// Returns the entries of a column family.
    pub(crate) fn family(&self, name: &str) -> &[Pair] {
        self.families.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of keys in all column families.
    pub(crate) fn len(&self) -> usize {
        self.families.values().map(Vec::len).sum()
    }

    /// Returns a hash of the contents, for messages.
    pub(crate) fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.families.iter().filter(|(_, pairs)| !pairs.is_empty()).for_each(|it| {
            it.hash(&mut hasher);
        });
        format!("{:016x}", hasher.finish())
    }
}

fn read_family(db: &Db, family: &ColumnFamily) -> Result<Vec<Pair>, String> {
    let options = ReadOptions::new()
        .with_total_order_seek(true)
        .with_fill_cache(false)
        .with_iterate_upper_bound(EXTRA_KEYS.to_vec());
    let doing = format!("reading all of column family '{}'", family.name());
    let doing = text(&doing);
    let mut pairs = Vec::new();
    let mut iterator = db.raw_iterator_cf_opt(family, &options).map_err(&doing)?;
    iterator.seek_to_first().map_err(&doing)?;
    while let Some((key, value)) = iterator.item() {
        pairs.push((key.into(), value.into()));
        iterator.next().map_err(&doing)?;
    }
    Ok(pairs)
}

/// Adds to `differences` a message for each key whose presence or value differs between `found` and
/// `wanted`. Both lists are in key order.
fn differ(family: &str, found: &[Pair], wanted: &[Pair], differences: &mut Vec<String>) {
    let wanted: BTreeMap<_, _> = wanted.iter().map(|(key, value)| (key, value)).collect();
    let mut missing = wanted.clone();
    for (key, value) in found {
        let shown = key.escape_ascii();
        match wanted.get(key) {
            Some(wanted) if *wanted == value => {}
            Some(wanted) => differences.push(format!(
                "{family}: key {shown} has {} but must have {}",
                value.escape_ascii(),
                wanted.escape_ascii()
            )),
            None => differences.push(format!(
                "{family}: key {shown} has {} but must not exist",
                value.escape_ascii()
            )),
        }
        missing.remove(key);
    }
    for (key, value) in missing {
        let (key, value) = (key.escape_ascii(), value.escape_ascii());
        differences.push(format!("{family}: key {key} is missing, with {value}"));
    }
}
