//! Conversion between options and an OPTIONS file, and parsing of option strings that mix options
//! of a database and a column family.

use tailwater_format::options_text::{
    Document, Section, SectionKind, Version, parse_option_string,
};

use super::block_based_table::{BLOCK_BASED_TABLE, BlockBasedTableOptions};
use super::column_family::ColumnFamilyOptions;
use super::database::DbOptions;
use super::error::{Error, Problem, Result, nearest};
use super::schema::OptionTable;
use super::tailwater::TailwaterOptions;

/// The version of RocksDB whose options are implemented. It is written to each OPTIONS file.
const ROCKSDB_VERSION: Version = Version { major: 11, minor: 8, patch: 1 };

/// How to treat unknown option names in an OPTIONS file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownOptions {
    /// Refuse an OPTIONS file that has unknown option names.
    #[default]
    Refuse,
    /// Ignore unknown option names in a file that names a newer version of RocksDB as its writer. A
    /// version is newer if it comes after the version whose options are implemented. Refuse any
    /// other file that has unknown option names.
    IgnoreFromNewer,
}

/// The options of a database and of all its column families.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The database's options.
    pub database: DbOptions,
    /// The name and options of each column family; the default column family comes first.
    pub column_families: Vec<(String, ColumnFamilyOptions)>,
}

impl Options {
    /// Reads the options of an OPTIONS file. Options that the file does not name get RocksDB's
    /// defaults. Does not check whether values are in range, or whether they are supported.
    ///
    /// # Errors
    /// For an unknown name, a malformed value, or an unsupported table format. The error has the
    /// line in the file.
    pub fn from_document(document: &Document, unknown: UnknownOptions) -> Result<Self> {
        let is_newer = document.rocksdb_version > ROCKSDB_VERSION;
        let ignore_unknown = is_newer && unknown == UnknownOptions::IgnoreFromNewer;
        let mut database = DbOptions::default();
        if let Some(section) = document.database() {
            set_section(&mut database, section, ignore_unknown)?;
        }
        let mut column_families = Vec::new();
        for name in document.column_families() {
            let mut options = ColumnFamilyOptions::default();
            if let Some(section) = document.column_family(name) {
                set_section(&mut options, section, ignore_unknown)?;
            }
            if let Some((factory, section)) = document.table(name) {
                options.table_factory = table_options(factory, section, ignore_unknown)?;
            }
            column_families.push((name.to_owned(), options));
        }
        Ok(Self { database, column_families })
    }

    /// Returns an OPTIONS file with these options. Options that RocksDB does not have are omitted.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new(ROCKSDB_VERSION);
        document.sections.push(print_section(SectionKind::Database, &self.database));
        for (name, options) in &self.column_families {
            push_family(&mut document, name, options);
        }
        document
    }

    /// Returns the text of an OPTIONS file that has only the options of one column family, under
    /// the name `default`. Options that RocksDB does not have are omitted.
    pub(crate) fn family_to_text(options: &ColumnFamilyOptions) -> String {
        let mut document = Document::new(ROCKSDB_VERSION);
        document.sections.push(Section::new(SectionKind::Database));
        push_family(&mut document, "default", options);
        document.to_text()
    }

    /// Returns the options of the column family `name`.
    pub fn column_family(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        let found = self.column_families.iter().find(|(family, _)| family == name);
        found.map(|(_, options)| options)
    }
}

fn table_options(
    factory: &str,
    section: &Section,
    ignore_unknown: bool,
) -> Result<BlockBasedTableOptions> {
    if factory != BLOCK_BASED_TABLE {
        let error = Error::refused(factory, "only block-based tables are built");
        return Err(error.within("table_factory").at_line(section.line));
    }
    let mut options = BlockBasedTableOptions::default();
    set_section(&mut options, section, ignore_unknown)?;
    Ok(options)
}

/// Sets the options of a section of an OPTIONS file. If a name occurs more than once, its first
/// entry takes effect.
fn set_section<T: OptionTable>(
    options: &mut T,
    section: &Section,
    ignore_unknown: bool,
) -> Result<()> {
    for (index, entry) in section.entries.iter().enumerate() {
        if section.entries[..index].iter().any(|before| before.name == entry.name) {
            continue;
        }
        match options.set_option(&entry.name, &entry.value) {
            Err(error) if ignore_unknown && matches!(error.problem, Problem::Unknown { .. }) => {}
            result => result.map_err(|error| error.at_line(entry.line))?,
        }
    }
    Ok(())
}

/// Adds the sections of a column family.
fn push_family(document: &mut Document, name: &str, options: &ColumnFamilyOptions) {
    let kind = SectionKind::ColumnFamily(name.to_owned());
    document.sections.push(print_section(kind, options));
    let factory = BLOCK_BASED_TABLE.to_owned();
    let kind = SectionKind::Table { factory, column_family: name.to_owned() };
    document.sections.push(print_section(kind, &options.table_factory));
}

fn print_section<T: OptionTable>(kind: SectionKind, options: &T) -> Section {
    let mut section = Section::new(kind);
    for (name, value) in options.print_options() {
        section.push(name, value);
    }
    section
}

/// Returns the first option in an option string that belongs to the database, if there is one.
///
/// # Errors
/// For a malformed option string.
pub(crate) fn database_option_in(text: &str) -> Result<Option<&str>> {
    let names = parse_option_string(text)?.into_iter().map(|assignment| assignment.name);
    let of_database = |name: &&str| DbOptions::knows(name) || TailwaterOptions::knows(name);
    Ok(names.into_iter().find(of_database))
}

/// Sets the options that an option string names. The string may mix options of the database,
/// including those that RocksDB does not have, and options of the column family. Options of tables
/// are given as `block_based_table_factory={...}`. If the string is refused, nothing changes.
///
/// # Errors
/// For a malformed option string, an unknown name, or an invalid value.
pub fn set_from_string(
    database: &mut DbOptions,
    column_family: &mut ColumnFamilyOptions,
    text: &str,
) -> Result<()> {
    let (mut new_database, mut new_family) = (database.clone(), column_family.clone());
    for assignment in parse_option_string(text)? {
        let name = assignment.name;
        if DbOptions::knows(name) {
            new_database.set_option(name, assignment.value)?;
        } else if ColumnFamilyOptions::knows(name) {
            new_family.set_option(name, assignment.value)?;
        } else if TailwaterOptions::knows(name) {
            new_database.tailwater.set_option(name, assignment.value)?;
        } else if !DbOptions::retired_names().contains(&name)
            && !ColumnFamilyOptions::retired_names().contains(&name)
        {
            let names = DbOptions::names().chain(ColumnFamilyOptions::names());
            let nearest = nearest(name, names.chain(TailwaterOptions::names()));
            return Err(Error::new(name, Problem::Unknown { nearest }));
        }
    }
    (*database, *column_family) = (new_database, new_family);
    Ok(())
}
