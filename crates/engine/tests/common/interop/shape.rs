//! A database's options, with which the tests open the database in RocksDB or in Tailwater.

use std::path::PathBuf;

use tailwater::OpenOptions;
use tailwater::options::{self, ColumnFamilyOptions, DbOptions, DbPath};
use tailwater_testkit::oracle::Script;

use crate::io_modes::IoModes;
use crate::model::Model;
use crate::place::Place;
use crate::step::family_options;

/// Additional options of every column family: memtables small enough to fill up.
const SMALL: &str = "write_buffer_size=65536";
/// Directories for tables, with their target sizes in bytes. The paths are relative to the
/// directory that holds all files of the database. Only databases with several table directories
/// use them.
const TABLE_DIRECTORIES: [(&str, u64); 2] = [("fast", 60_000), ("slow", 1 << 40)];

/// A database's options, as option strings for RocksDB and Tailwater.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Options of the database. `$ROOT` denotes the directory that holds all files of the database.
    pub(crate) database: String,
    /// Additional options for RocksDB only.
    pub(crate) theirs: String,
    /// Additional options for Tailwater only.
    pub(crate) ours: String,
    /// The names and options of the column families that the database has at first.
    pub(crate) families: Vec<(String, String)>,
    /// Whether tables are in several directories.
    pub(crate) several_paths: bool,
    /// Whether Tailwater does background work in the calling thread.
    pub(crate) inline: bool,
}

/// Joins several option strings, some of which may be empty.
pub(crate) fn join(texts: &[&str]) -> String {
    let texts: Vec<&str> = texts.iter().copied().filter(|text| !text.is_empty()).collect();
    texts.join(";")
}

impl Shape {
    /// Creates a shape with the database options `database` and three column families, each with
    /// the options `family`. The first column family has no merge operator. The operator of the
    /// second one adds numbers, and that of the third one appends text.
    pub(crate) fn new(database: &str, family: &str) -> Self {
        let families = [
            ("default", ""),
            ("numbers", "merge_operator=UInt64AddOperator"),
            ("joined", "merge_operator={id=StringAppendOperator;delimiter=,}"),
        ];
        let families =
            families.map(|(name, own)| (name.to_owned(), join(&[SMALL, family, own]))).to_vec();
        Self {
            database: database.to_owned(),
            theirs: String::new(),
            ours: String::new(),
            families,
            several_paths: false,
            inline: false,
        }
    }

    /// Returns this shape with these I/O modes.
    pub(crate) fn in_modes(mut self, io_modes: &IoModes) -> Self {
        self.database = join(&[&self.database, &io_modes.flags]);
        self.ours = join(&[&self.ours, &io_modes.ours]);
        self
    }

    /// Returns an empty model of the database.
    pub(crate) fn model(&self) -> Model {
        let recycles = self.database.contains("recycle_log_file_num=");
        Model::new(&self.families, !recycles)
    }

    /// Returns the options with which Tailwater opens the database and the model's column families.
    /// `more` adds options.
    pub(crate) fn open_options(&self, place: &Place, model: &Model, more: &str) -> OpenOptions {
        let text = place.expand(&join(&[&self.database, &self.ours, more]));
        let mut database = DbOptions::default();
        options::set_from_string(&mut database, &mut ColumnFamilyOptions::default(), &text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        database.db_paths = self
            .table_directories(place)
            .into_iter()
            .map(|(path, target_size)| DbPath { path, target_size })
            .collect();
        let mut options = OpenOptions::default();
        // The database may be a copy of another one. Each of its directories outside the home has a
        // claim, a file that names the owner of the directory. A copied claim still names the
        // original.
        options.set_adopt_directories(true);
        options.set_database(database);
        for (name, text) in model.families() {
            options.set_column_family(name, family_options(text));
        }
        options.set_inline_background(self.inline);
        options
    }

    /// Returns the script lines that open the model's column families in RocksDB. `more` adds
    /// options.
    pub(crate) fn describe(&self, place: &Place, model: &Model, more: &str) -> Script {
        let text = place.expand(&join(&[&self.database, &self.theirs, more]));
        let mut script = Script::describe(&place.database(), &text, &model.families());
        for (path, bytes) in self.table_directories(place) {
            script.line(&[&"database-path", &path.display(), &bytes]);
        }
        script
    }

    /// Returns the table directories with their target sizes in bytes; empty if there is only one.
    pub(crate) fn table_directories(&self, place: &Place) -> Vec<(PathBuf, u64)> {
        let directory = |&(name, bytes): &(&str, u64)| {
            (PathBuf::from(place.expand(&format!("$ROOT/{name}"))), bytes)
        };
        if self.several_paths { TABLE_DIRECTORIES.iter().map(directory).collect() } else { vec![] }
    }
}
