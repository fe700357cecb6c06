//! The verbs that read a database and change nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Common, Keys, Place, examples};

/// The verbs that read a database.
#[derive(Debug, Subcommand)]
pub(crate) enum Reading {
    /// Print the value of one key
    #[command(after_help = examples(&[
        ("tailwater db get DIR user:17", "the value, escaped"),
        ("tailwater db get DIR 'a\\x00b'", "a key with a zero byte in it"),
        ("tailwater db get DIR --hex 757365723a3137", "key and value in hex"),
    ]))]
    Get(GetArguments),
    /// Print the keys and values of a range, or of all keys, in order
    #[command(after_help = examples(&[
        ("tailwater db scan DIR --prefix user: --limit 10", "the first ten users"),
        ("tailwater db scan DIR --reverse --limit 1 --keys-only", "the last key"),
        ("tailwater db scan DIR --from b --to c --count", "the number of keys that begin with b"),
    ]))]
    Scan(ScanArguments),
    /// Print all entries of column families: name, key and value, separated by tabs
    ///
    /// One line for each live entry, in the column family's key order; column families in the order
    /// of their ids.
    #[command(after_help = examples(&[
        ("tailwater db dump DIR --all --hex | sha256sum", "a fingerprint of a database's contents"),
        ("tailwater db dump DIR --column-family users", "one column family, escaped"),
    ]))]
    Dump(DumpArguments),
    /// Read a whole database, and report damage and inconsistencies
    ///
    /// Verifies all checksums and the order of keys. Compares indexes and filters with data blocks.
    /// Compares the counts and sizes of what was read with the properties and the MANIFEST. Also
    /// verifies logs and blob files, and that no file is missing or superfluous.
    #[command(after_help = examples(&[
        ("tailwater db verify DIR", "findings, and counts of what was read"),
        ("tailwater db verify DIR --json", "the same as JSON"),
    ]))]
    Verify(Place),
    /// Print an overview of the database, or one of RocksDB's properties
    ///
    /// Without NAME: id, sequence number, and for each column family its comparator, levels,
    /// tables, blob files and log number. With NAME: that property of the column family.
    #[command(after_help = examples(&[
        ("tailwater db properties DIR", "an overview"),
        ("tailwater db properties DIR rocksdb.levelstats", "tables and megabytes by level"),
        ("tailwater db properties DIR rocksdb.num-files-at-level0", "one number"),
    ]))]
    Properties(PropertiesArguments),
    /// Print the levels of column families, and their memory
    ///
    /// Printed like rocksdb.cfstats, followed by the bytes in memory and the I/O of this command.
    /// Figures on flushes and compactions are zero, because the database is open for reading.
    #[command(after_help = examples(&[
        ("tailwater db stats DIR", "every column family"),
        ("tailwater db stats DIR --column-family users --json", "one column family, as JSON"),
    ]))]
    Stats(StatsArguments),
    /// Print a MANIFEST record by record, and the resulting state
    #[command(after_help = examples(&[
        ("tailwater db manifest DIR", "the MANIFEST that CURRENT names"),
        ("tailwater db manifest DIR MANIFEST-000005", "a given MANIFEST"),
    ]))]
    Manifest(ManifestArguments),
    /// Print write-ahead logs record by record, and the result of recovery
    ///
    /// Bytes that are not part of a record are classified: damage, a torn tail, space that was
    /// allocated and never written, padding, or remains of an earlier use of the file.
    #[command(after_help = examples(&[
        ("tailwater db wal DIR", "every log, a line for each batch"),
        ("tailwater db wal DIR 000078.log --verbose", "one log, with every operation"),
        ("tailwater db wal DIR --options 'wal_recovery_mode=kAbsoluteConsistency'",
            "the result in a stricter recovery mode"),
    ]))]
    Wal(WalArguments),
    /// Print the structure of tables (SST files)
    ///
    /// A table is read according to its own properties, so it need not belong to a database.
    #[command(after_help = examples(&[
        ("tailwater db table DIR", "every table of a directory"),
        ("tailwater db table DIR 83 --blocks", "000083.sst with its data blocks"),
        ("tailwater db table 000083.sst --entries --hex", "every entry of one file"),
    ]))]
    Table(TableArguments),
    /// Print the structure of blob files
    #[command(after_help = examples(&[
        ("tailwater db blob DIR", "every blob file of a directory"),
        ("tailwater db blob DIR 10", "000010.blob"),
        ("tailwater db blob 000010.blob --json", "one file, as JSON lines"),
    ]))]
    Blob(BlobArguments),
    /// Print the names of the column families
    #[command(after_help = examples(&[
        ("tailwater db column-families DIR", "the names, in the order of the ids"),
        ("tailwater db column-families DIR --json", "with ids and comparators"),
    ]))]
    ColumnFamilies(Place),
    /// Print the options in effect, and their origins
    #[command(after_help = examples(&[
        ("tailwater db options DIR", "the options of the newest OPTIONS file"),
        ("tailwater db options DIR --column-family users", "the options of one column family"),
        ("tailwater db options DIR --without-effect", "the set options that have no effect, and why"),
    ]))]
    Options(OptionsArguments),
}

#[derive(Debug, Args)]
pub(crate) struct GetArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The key
    pub(crate) key: String,
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    #[command(flatten)]
    pub(crate) keys: Keys,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// First key of the range, inclusive
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// End of the range, exclusive
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    /// Only keys that begin with these bytes
    #[arg(long, value_name = "KEY")]
    pub(crate) prefix: Option<String>,
    /// Maximum number of entries to print or count
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Print the range in reverse order
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print keys without values
    #[arg(long)]
    pub(crate) keys_only: bool,
    /// Print only the number of entries
    #[arg(long)]
    pub(crate) count: bool,
    #[command(flatten)]
    pub(crate) keys: Keys,
}

#[derive(Debug, Args)]
pub(crate) struct DumpArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default", conflicts_with = "all")]
    pub(crate) column_family: String,
    /// Every column family
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PropertiesArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Name of a property, for example rocksdb.estimate-num-keys
    pub(crate) name: Option<String>,
    /// The column family of the property
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Show only this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) column_family: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ManifestArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Name or number of a MANIFEST in DIR; by default, the MANIFEST that CURRENT names
    pub(crate) file: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WalArguments {
    /// The database's directory, or the directory of its logs
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Names or numbers of logs in DIR; by default, all logs
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Print every operation of every batch
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct TableArguments {
    /// A table, or a directory of tables
    #[arg(value_name = "FILE|DIR")]
    pub(crate) path: PathBuf,
    /// Number of a table in the directory; without one, all tables
    pub(crate) number: Option<u64>,
    /// Print every data block
    #[arg(long)]
    pub(crate) blocks: bool,
    /// Print every entry, with its sequence number and type
    #[arg(long)]
    pub(crate) entries: bool,
    /// Print the bytes of every data block as stored in the file, including trailers
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct BlobArguments {
    /// A blob file, or a directory of blob files
    #[arg(value_name = "FILE|DIR")]
    pub(crate) path: PathBuf,
    /// Number of a blob file in the directory; without one, all blob files
    pub(crate) number: Option<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct OptionsArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Show only the options of this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) column_family: Option<String>,
    /// Show only options that are set and have no effect, and why they have none
    #[arg(long)]
    pub(crate) without_effect: bool,
}
