//! The model of a database: where its files are, what it contains, and which database owns its
//! directories outside the home.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tailwater::{Db, ReadOptions};

/// The contents of a database: for each column family, its keys and values.
pub(crate) type State = BTreeMap<String, BTreeMap<String, String>>;

/// The name of the column family that always exists.
pub(crate) const DEFAULT: &str = "default";

/// A directory for tables: its canonical path, and its target size in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) directory: PathBuf,
    pub(crate) target_size: u64,
}

/// The canonical paths of the directories of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) home: PathBuf,
    /// The value of `wal_dir`, if set.
    pub(crate) logs: Option<PathBuf>,
    /// The value of `db_paths`.
    pub(crate) tables: Vec<Place>,
    /// The values of `cf_paths`, by column family, of those column families that set the option.
    pub(crate) family_tables: BTreeMap<String, Vec<Place>>,
}

impl Layout {
    /// Returns the layout of a database with all files in its home.
    pub(crate) fn at(home: PathBuf) -> Self {
        Self { home, logs: None, tables: Vec::new(), family_tables: BTreeMap::new() }
    }

    /// Returns the directory of the logs: `wal_dir` or, if that is not set, the database's home.
    pub(crate) fn log_directory(&self) -> &Path {
        self.logs.as_deref().unwrap_or(&self.home)
    }

    /// Returns the directory of a column family's tables whose path number, as recorded in the
    /// MANIFEST, is `path`.
    pub(crate) fn table_directory(&self, family: &str, path: u32) -> &Path {
        let own = self.family_tables.get(family).filter(|own| !own.is_empty());
        let places = own.unwrap_or(&self.tables);
        let place = places.get(path as usize).or(places.last());
        place.map_or(&self.home, |place| &place.directory)
    }

    /// Returns every directory of the database other than its home.
    pub(crate) fn outside(&self) -> BTreeSet<PathBuf> {
        let places = self.tables.iter().chain(self.family_tables.values().flatten());
        let mut all: BTreeSet<PathBuf> = places.map(|place| place.directory.clone()).collect();
        all.extend(self.logs.clone());
        all.remove(&self.home);
        all
    }

    /// Updates the paths of the layout after the directory `from` was renamed to `to`.
    pub(crate) fn renamed(&mut self, from: &Path, to: &Path) {
        let rename = |path: &mut PathBuf| {
            if let Ok(below) = path.strip_prefix(from) {
                // Joining the empty path would append a slash to `to`.
                let is_itself = below.as_os_str().is_empty();
                *path = if is_itself { to.to_owned() } else { to.join(below) };
            }
        };
        rename(&mut self.home);
        self.logs.iter_mut().for_each(rename);
        let places = self.tables.iter_mut().chain(self.family_tables.values_mut().flatten());
        places.for_each(|place| rename(&mut place.directory));
    }
}

/// Who owns a database's directories for logs and tables, other than its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The database owns its directories. Opening the database must succeed and show exactly its
    /// data.
    Owner,
    /// Another database owns the directories. This database is a copy. The owner is its original,
    /// or another copy of the same original that has adopted the directories. Opening this database
    /// must either show exactly its data or be refused. The files in the directories belong to the
    /// owner and must stay unchanged.
    Copy,
}

/// The model of one database.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    /// The database's number in the world. It is also the prefix of the database's keys.
    pub(crate) number: usize,
    /// A number that is the same for a database and for all direct and indirect copies of it.
    pub(crate) lineage: usize,
    pub(crate) layout: Layout,
    pub(crate) state: State,
    pub(crate) standing: Standing,
    /// The options that do not concern directories.
    pub(crate) tuning: String,
    /// Whether this is a copy whose contents may be outdated. This is so if, after the copy was
    /// made, another database that uses the same directories for logs or tables was opened for
    /// writing or destroyed.
    pub(crate) is_stale: bool,
    /// The contents of the claims in the database's directories other than its home, when the
    /// database was last open.
    pub(crate) claims: BTreeMap<PathBuf, Vec<u8>>,
}

/// Returns the contents of an open database.
pub(crate) fn state_of(db: &Db) -> tailwater::Result<State> {
    let mut state = State::new();
    for family in db.column_families() {
        let table = state.entry(family.name().to_owned()).or_default();
        let mut iterator = db.raw_iterator_cf_opt(&family, &ReadOptions::default())?;
        iterator.seek_to_first()?;
        while let Some((key, value)) = iterator.item() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            table.insert(text(key), text(value));
            iterator.next()?;
        }
    }
    Ok(state)
}

/// Returns the first difference between the expected and the found contents.
pub(crate) fn difference(expected: &State, found: &State) -> Option<String> {
    let names = |state: &State| state.keys().cloned().collect::<Vec<_>>();
    if names(expected) != names(found) {
        return Some(format!("column families {:?}, not {:?}", names(found), names(expected)));
    }
    for (family, expected) in expected {
        let found = &found[family];
        let keys: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        if let Some(key) = keys.into_iter().find(|&key| expected.get(key) != found.get(key)) {
            let (expected, found) = (expected.get(key), found.get(key));
            return Some(format!("'{family}' has {key} = {found:?}, not {expected:?}"));
        }
    }
    None
}
