//! The verbs that change a database.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Keys, Place, examples};

/// The verbs that change a database.
#[derive(Debug, Subcommand)]
pub(crate) enum Writing {
    /// Set the value of a key
    #[command(after_help = examples(&[
        ("tailwater db put DIR user:17 'Ada\\tLovelace'", "a value with a tab in it"),
        ("tailwater db put NEW user:17 Ada --create", "in a new database"),
        ("tailwater db put DIR --hex 757365723a3137 416461 --sync",
            "durable when the command returns"),
    ]))]
    Put(PutArguments),
    /// Remove a key
    #[command(after_help = examples(&[
        ("tailwater db delete DIR user:17", "no error if the key does not exist"),
    ]))]
    Delete(DeleteArguments),
    /// Remove a key that was put once since its last removal
    ///
    /// The result is undefined for a key that was put more than once, or merged.
    #[command(after_help = examples(&[
        ("tailwater db single-delete DIR job:4711",
            "its tombstone is dropped together with the value"),
    ]))]
    SingleDelete(DeleteArguments),
    /// Remove all keys in a range
    #[command(after_help = examples(&[
        ("tailwater db delete-range DIR user:17 user:18", "all keys that begin with user:17"),
    ]))]
    DeleteRange(DeleteRangeArguments),
    /// Add a merge operand to a key
    ///
    /// The column family must have a merge operator, from its OPTIONS file or from --options, which
    /// records it for this column family. A recorded operator cannot be replaced.
    #[command(after_help = examples(&[
        ("tailwater db merge DIR --column-family counters --hex 6869 0100000000000000",
            "add 1, with the operator uint64add"),
        ("tailwater db merge DIR log line --options 'merge_operator=stringappend'",
            "with an operator for a column family that has none yet"),
    ]))]
    Merge(MergeArguments),
    /// Load a file: Debian packages, or keys and values
    ///
    /// Formats:
    ///   packages  a Debian package index: key Package/Version, value the stanza; and in column
    ///             family 'depends', for the first alternative of each entry of Depends,
    ///             key DEPENDENCY<-Package, value the version. A package and its dependencies
    ///             are written together or not at all
    ///   tsv       lines KEY<TAB>VALUE or COLUMN-FAMILY<TAB>KEY<TAB>VALUE, escaped, as printed by
    ///             scan and dump
    ///   hex       the same with keys and values in hex
    ///
    /// Missing column families are created, and with --create a missing database. The file is read
    /// line by line, so it may be of any length. Loading ends at a malformed line, and at a last
    /// line without a line end, which may be truncated; everything before it is loaded.
    #[command(verbatim_doc_comment, after_help = examples(&[
        ("/usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_Packages* | \
          tailwater db load DIR --format packages -", "Debian's index, after 'apt-get update'"),
        ("tailwater db dump A --all --hex | tailwater db load B --create --format hex -", "a copy"),
        ("tailwater db load DIR --format tsv FILE --sync --batch 100 --ack LOADED",
            "each batch of 100 is durable before LOADED records it"),
    ]))]
    Load(LoadArguments),
    /// Ingest tables that were created outside the database
    ///
    /// The files are created by RocksDB's or Tailwater's SstFileWriter. All of them are ingested,
    /// or none; if two files have the same key, the one given later on the command line takes
    /// precedence. Every block is read and verified before anything is changed. Prints the level of
    /// each file.
    #[command(after_help = examples(&[
        ("tailwater db ingest DIR part-*.sst", "copies the files"),
        ("tailwater db ingest DIR --move --column-family users users.sst",
            "links the file and removes its original name"),
    ]))]
    Ingest(IngestArguments),
    /// Write the contents of memory and logs to tables
    #[command(after_help = examples(&[
        ("tailwater db flush DIR", "every column family"),
        ("tailwater db flush DIR --column-family users", "one column family"),
    ]))]
    Flush(FlushArguments),
    /// Merge tables down to the last level, without obsolete records
    ///
    /// Writes the contents of memory and logs to tables first. Prints tables and bytes before and
    /// after for each column family. A damaged table stops the compaction of its column family
    /// without losing data; the other column families are compacted.
    #[command(after_help = examples(&[
        ("tailwater db compact DIR", "every column family"),
        ("tailwater db compact DIR --column-family users --from a --to b", "the tables of a range"),
    ]))]
    Compact(CompactArguments),
    /// Change options permanently
    ///
    /// The new values are written to the OPTIONS file, for every program that loads it.
    /// docs/options.md lists the options that can be changed. If one is refused, all options of its
    /// column family, or of the database, keep their values.
    #[command(after_help = examples(&[
        ("tailwater db set-options DIR write_buffer_size=32m", "options of the default column family"),
        ("tailwater db set-options DIR --column-family users ttl=86400", "options of another column family"),
        ("tailwater db set-options DIR max_background_jobs=4", "options of the database"),
    ]))]
    SetOptions(SetOptionsArguments),
    /// Create a column family
    #[command(after_help = examples(&[
        ("tailwater db create-column-family DIR users", "with the default options"),
        ("tailwater db create-column-family DIR counters --options 'merge_operator=uint64add'",
            "with its own options"),
    ]))]
    CreateColumnFamily(CreateColumnFamilyArguments),
    /// Remove a column family and everything in it
    #[command(after_help = examples(&[
        ("tailwater db drop-column-family DIR users", "its entries can no longer be read"),
    ]))]
    DropColumnFamily(DropColumnFamilyArguments),
    /// Create a copy of the current state of the database
    ///
    /// Tables are linked if both directories are on one filesystem, and copied otherwise.
    #[command(after_help = examples(&[
        ("tailwater db checkpoint DIR BACKUP", "BACKUP is an independent database"),
    ]))]
    Checkpoint(CheckpointArguments),
    /// Remove a database with all its files
    #[command(after_help = examples(&[
        ("tailwater db destroy DIR --yes", "files that do not belong to the database stay"),
    ]))]
    Destroy(DestroyArguments),
}

/// Arguments of the verbs that change a key or a range of keys.
#[derive(Debug, Args)]
pub(crate) struct Change {
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// Sync the write, so that it survives a crash of the machine after the command has returned
    #[arg(long)]
    pub(crate) sync: bool,
    #[command(flatten)]
    pub(crate) keys: Keys,
}

/// The argument of the verbs that can create a database.
#[derive(Debug, Args)]
pub(crate) struct Creation {
    /// If the directory has no database, create one, and the directory too if it does not exist
    #[arg(long)]
    pub(crate) create: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PutArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The key
    pub(crate) key: String,
    /// The value, escaped like a key or, with --hex, in hex
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) creation: Creation,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The key
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteRangeArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// First key of the range
    pub(crate) from: String,
    /// End of the range, exclusive
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The key
    pub(crate) key: String,
    /// The operand, escaped like a key or, with --hex, in hex
    pub(crate) operand: String,
    #[command(flatten)]
    pub(crate) creation: Creation,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// The format of a file to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadFormat {
    /// The stanzas of a Debian package index
    Packages,
    /// Lines of escaped fields
    Tsv,
    /// Lines of fields in hex
    Hex,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The file, or - for standard input
    pub(crate) file: PathBuf,
    /// The format of the file: packages, tsv or hex
    #[arg(long, hide_possible_values = true)]
    pub(crate) format: LoadFormat,
    /// The column family for packages, and for lines that name no column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// Number of packages or lines in one atomic batch; fewer if they are large
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// Sync each batch before the next one, so that it survives a crash of the machine
    #[arg(long)]
    pub(crate) sync: bool,
    /// After each batch, append the number of packages or lines loaded to FILE. Implies --sync
    #[arg(long, value_name = "FILE")]
    pub(crate) ack: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) creation: Creation,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The table files to ingest
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// Link the files instead of copying them, if possible, and remove their original names
    #[arg(long = "move")]
    pub(crate) moves: bool,
    #[command(flatten)]
    pub(crate) creation: Creation,
}

#[derive(Debug, Args)]
pub(crate) struct FlushArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) column_family: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SetOptionsArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Options and their new values
    #[arg(value_name = "NAME=VALUE", required = true)]
    pub(crate) assignments: Vec<String>,
    /// The column family to change; ignored for options of the database
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) column_family: Option<String>,
    /// First key of the range
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// Last key of the range, inclusive
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) keys: Keys,
}

#[derive(Debug, Args)]
pub(crate) struct CreateColumnFamilyArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Name of the new column family. It must not be in use
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) creation: Creation,
}

#[derive(Debug, Args)]
pub(crate) struct DropColumnFamilyArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Name of the column family
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Directory of the copy, which must not exist
    pub(crate) target: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DestroyArguments {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Confirm the removal
    #[arg(long)]
    pub(crate) yes: bool,
}
