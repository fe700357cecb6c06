//! The verbs that change a database.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Common, Keys, examples};

/// What to change.
#[derive(Debug, Subcommand)]
pub(crate) enum Writing {
    /// Give a key a value
    ///
    /// A database that is not there is made.
    #[command(after_help = examples(&[
        ("tailwater db put DIR user:17 'Ada\\tLovelace'", "a value with a tab in it"),
        ("tailwater db put DIR --hex 757365723a3137 416461 --sync",
            "on the device when it returns"),
    ]))]
    Put(PutArguments),
    /// Remove a key
    #[command(after_help = examples(&[
        ("tailwater db delete DIR user:17", "whether it is there or not"),
    ]))]
    Delete(DeleteArguments),
    /// Remove a key that was put once since it was last removed
    ///
    /// What becomes of a key that was put more than once, or merged, is not defined.
    #[command(after_help = examples(&[
        ("tailwater db single-delete DIR job:4711", "a tombstone that goes with what it removes"),
    ]))]
    SingleDelete(SingleDeleteArguments),
    /// Remove all keys of a range
    #[command(after_help = examples(&[
        ("tailwater db delete-range DIR user:17 user:18", "user:17 and all that begin with it"),
    ]))]
    DeleteRange(DeleteRangeArguments),
    /// Give a key a merge operand
    ///
    /// The column family must have a merge operator, in its OPTIONS file or by --options.
    #[command(after_help = examples(&[
        ("tailwater db merge DIR --column-family counters --hex 6869 0100000000000000",
            "one more, for uint64add"),
        ("tailwater db merge DIR log line --options 'merge_operator=stringappend'",
            "an operator that the OPTIONS file does not have"),
    ]))]
    Merge(MergeArguments),
    /// Load a file: Debian packages, or keys and values
    ///
    /// Formats:
    ///   packages  a Debian package index: key Package/Version, value the stanza; and in column
    ///             family 'depends', for the first alternative of each entry of Depends,
    ///             key DEPENDENCY<-Package, value the version. A package and its dependencies
    ///             are written together or not at all
    ///   tsv       lines KEY<TAB>VALUE or COLUMN-FAMILY<TAB>KEY<TAB>VALUE, escaped, as scan and
    ///             dump print them
    ///   hex       the same with keys and values in hex
    ///
    /// A database that is not there is made, and so is a column family. It is read line by line, so
    /// it may be of any length. Where it is not what it should be, loading ends, and what stands
    /// before is loaded.
    #[command(verbatim_doc_comment, after_help = examples(&[
        ("/usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_Packages* | \
          tailwater db load DIR --format packages -", "Debian's index, after 'apt-get update'"),
        ("tailwater db dump A --all --hex | tailwater db load B --format hex -", "a copy"),
        ("tailwater db load DIR --format tsv FILE --sync --batch 100 --ack LOADED",
            "each hundred on the device before LOADED says so"),
    ]))]
    Load(LoadArguments),
    /// Take tables in that were made outside the database
    ///
    /// The files are made by RocksDB's SstFileWriter, or Tailwater's. All of them are taken in, or
    /// none; where two have the same keys, the later one counts. Every block of them is read and
    /// checked before anything is changed. Printed is what became of each.
    #[command(after_help = examples(&[
        ("tailwater db ingest DIR part-*.sst", "copied; the files stay"),
        ("tailwater db ingest DIR --move --column-family users users.sst",
            "linked, and the file's own name goes"),
    ]))]
    Ingest(IngestArguments),
    /// Write what is in memory and logs into tables
    #[command(after_help = examples(&[
        ("tailwater db flush DIR", "every column family"),
        ("tailwater db flush DIR --column-family users", "one"),
    ]))]
    Flush(FlushArguments),
    /// Merge tables down to the last level, without what nobody can see any more
    ///
    /// What is in memory and logs is written into tables before. Printed is what became of each
    /// column family. One with a damaged table holds what it held, and the others are compacted.
    #[command(after_help = examples(&[
        ("tailwater db compact DIR", "every column family"),
        ("tailwater db compact DIR --column-family users --from a --to b", "the tables of a range"),
    ]))]
    Compact(CompactArguments),
    /// Change options, so that they count from then on
    ///
    /// They are changed as in a program that has the database open, are in its OPTIONS file then,
    /// and count for every program that loads it. docs/options.md lists those that can be changed.
    /// Where one is refused, the other options of its column family or of the database stay too.
    #[command(after_help = examples(&[
        ("tailwater db set-options DIR write_buffer_size=32m", "of the default column family"),
        ("tailwater db set-options DIR --column-family users ttl=86400", "of another"),
        ("tailwater db set-options DIR max_background_jobs=4", "of the database"),
    ]))]
    SetOptions(SetOptionsArguments),
    /// Make a column family
    #[command(after_help = examples(&[
        ("tailwater db create-column-family DIR users", "with the default options"),
        ("tailwater db create-column-family DIR counters --options 'merge_operator=uint64add'",
            "with options of its own"),
    ]))]
    CreateColumnFamily(CreateColumnFamilyArguments),
    /// Remove a column family and everything in it
    #[command(after_help = examples(&[
        ("tailwater db drop-column-family DIR users", "nothing of it can be read any more"),
    ]))]
    DropColumnFamily(DropColumnFamilyArguments),
    /// Make a copy of the database as it is at this moment
    ///
    /// Tables are linked where both directories are on one filesystem, and copied elsewhere.
    #[command(after_help = examples(&[
        ("tailwater db checkpoint DIR BACKUP", "BACKUP is a database of its own"),
    ]))]
    Checkpoint(CheckpointArguments),
    /// Remove a database with all its files
    #[command(after_help = examples(&[
        ("tailwater db destroy DIR --yes", "files that are none of the database's stay"),
    ]))]
    Destroy(DestroyArguments),
}

/// What every verb takes that changes what a key stands for.
#[derive(Debug, Args)]
pub(crate) struct Change {
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// Return when it is on the device, so that it survives a crash of the machine
    #[arg(long)]
    pub(crate) sync: bool,
    #[command(flatten)]
    pub(crate) keys: Keys,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct PutArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The key
    pub(crate) key: String,
    /// The value, escaped like a key or, with --hex, in hex
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The key
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct SingleDeleteArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The key
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteRangeArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The first key of the range, which belongs to it
    pub(crate) from: String,
    /// The key at which the range ends, which does not belong to it
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The key
    pub(crate) key: String,
    /// The operand, escaped like a key or, with --hex, in hex
    pub(crate) operand: String,
    #[command(flatten)]
    pub(crate) change: Change,
}

/// What a file that is loaded consists of.
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
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The file; - is standard input
    pub(crate) file: PathBuf,
    /// What the file consists of
    #[arg(long, hide_possible_values = true)]
    pub(crate) format: LoadFormat,
    /// The column family of the packages, or of the lines that do not name one
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// How many packages or lines are written at once, all or nothing; large ones are fewer
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: u64,
    /// Go on when a batch is on the device, so that it survives a crash of the machine
    #[arg(long)]
    pub(crate) sync: bool,
    /// Append a line to FILE after each batch: how many packages or lines are loaded. Means --sync
    #[arg(long, value_name = "FILE")]
    pub(crate) ack: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    /// Link the files rather than copying them, where that can be, and remove their own names
    #[arg(long = "move")]
    pub(crate) moves: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct FlushArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Only this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) column_family: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct SetOptionsArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Names of options, each with its value
    #[arg(value_name = "NAME=VALUE", required = true)]
    pub(crate) assignments: Vec<String>,
    /// The column family whose options these are, but for those of the database
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) column_family: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct CompactArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Only this column family
    #[arg(long, value_name = "NAME")]
    pub(crate) column_family: Option<String>,
    /// The first key of the range, which belongs to it
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// The last key of the range, which belongs to it, too
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) keys: Keys,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct CreateColumnFamilyArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The name, which must not be in use
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct DropColumnFamilyArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// The copy's directory, which must not be there
    pub(crate) target: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct DestroyArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Says that this is meant
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

impl Writing {
    /// Returns the arguments that all verbs share.
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Put(arguments) => &arguments.change.common,
            Self::Delete(arguments) => &arguments.change.common,
            Self::SingleDelete(arguments) => &arguments.change.common,
            Self::DeleteRange(arguments) => &arguments.change.common,
            Self::Merge(arguments) => &arguments.change.common,
            Self::Load(arguments) => &arguments.common,
            Self::Ingest(arguments) => &arguments.common,
            Self::Flush(arguments) => &arguments.common,
            Self::Compact(arguments) => &arguments.common,
            Self::SetOptions(arguments) => &arguments.common,
            Self::CreateColumnFamily(arguments) => &arguments.common,
            Self::DropColumnFamily(arguments) => &arguments.common,
            Self::Checkpoint(arguments) => &arguments.common,
            Self::Destroy(arguments) => &arguments.common,
        }
    }
}
