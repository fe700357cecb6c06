//! The source database. Each run starts with a copy of it.
//!
//! Every key has a value. All data is in the last level, as after filling a database and compacting
//! it. The experiment with one compaction is different: every other key is in level 0, so that the
//! compaction has two inputs to merge. Keys are written in ascending order without a write-ahead
//! log, so that each byte is written only once.
//!
//! The database is built once and kept. A file in it describes its parameters. That file is written
//! before the database gets its final name, so a database with its final name is complete.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tailwater::{CompactRangeOptions, Db, OpenOptions, WriteOptions};

use super::plan::{Kind, Parameters};
use super::tree_options::TreeOptions;
use super::units::Bytes;
use super::workload::Load;
use crate::entries::{KEY_BYTES, Values, key};
use crate::failure::Failure;
use crate::files::{read_json, rename, write_json};
use crate::own::{OwnDirectory, remove_own};

/// Name of the file that describes a source database.
pub(super) const DESCRIPTION: &str = "source.json";

/// The parameters that determine the content of a source database. They are stored with the
/// database, in the file [`DESCRIPTION`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Source {
    /// Version of the code that generates keys and values.
    version: u32,
    keys: u64,
    value_bytes: usize,
    kind: Kind,
    #[serde(rename = "shape")]
    tree_options: TreeOptions,
    /// Share of their size to which values compress; `None` for incompressible values.
    #[serde(default)]
    compression_ratio: Option<f64>,
    /// The options of compression, as an option string.
    #[serde(default)]
    compression: String,
}

impl Source {
    /// Describes the source database that an experiment needs.
    pub(super) fn new(parameters: &Parameters) -> Self {
        let Parameters { load, kind, tree_options, .. } = *parameters;
        let Load { keys, value_bytes, compression_ratio, .. } = load;
        Self {
            version: 1,
            keys,
            value_bytes,
            kind,
            tree_options,
            compression_ratio: (compression_ratio < 1.0).then_some(compression_ratio),
            compression: parameters.compression(),
        }
    }

    /// Returns the size of the database's keys and values, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.keys * (KEY_BYTES + self.value_bytes) as u64
    }

    /// Returns the path of the database inside `directory`.
    pub(super) fn path(&self, directory: &Path) -> PathBuf {
        let kind = match self.kind {
            Kind::Overwriting => "source",
            Kind::Merging => "source-to-merge",
        };
        let ratio = self.compression_ratio.map_or_else(String::new, |ratio| format!("-{ratio}"));
        directory.join(format!("{kind}-{}x{}{ratio}", self.keys, self.value_bytes))
    }

    /// Returns whether a complete database with exactly these parameters exists in `directory`.
    pub(super) fn is_there(&self, directory: &Path) -> bool {
        let described = read_json::<Self>(&self.path(directory).join(DESCRIPTION));
        matches!(described, Ok(Some(description)) if description == *self)
    }

    /// Builds the database in `directory`. It replaces a database that this program created at the
    /// same path.
    ///
    /// # Errors
    /// If something exists at that path that this program did not create; errors of the engine and
    /// of the filesystem.
    pub(super) fn build(&self, directory: &Path) -> Result<(), Failure> {
        let path = self.path(directory);
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        say!(
            "building the source database: {} keys with values of {}, {}, in {}",
            self.keys,
            Bytes(self.value_bytes as u64),
            Bytes(self.bytes()),
            path.display()
        );
        remove_own(&path)?;
        let own = OwnDirectory::create(&unfinished)?;
        let start = Instant::now();
        self.fill(&unfinished)?;
        write_json(&unfinished.join(DESCRIPTION), self)?;
        rename(&unfinished, &path)?;
        own.keep();
        say!("  built in {:.0} s", start.elapsed().as_secs_f64());
        Ok(())
    }

    fn fill(&self, directory: &Path) -> Result<(), Failure> {
        match self.kind {
            Kind::Overwriting => self.fill_with(directory, "", 0..self.keys, true),
            Kind::Merging => {
                let (even, odd) = ((0..self.keys).step_by(2), (1..self.keys).step_by(2));
                self.fill_with(directory, "num_levels=2", even, true)?;
                // Use a large memtable, so that there are only a few tables in level 0. A read
                // searches every table there.
                let options = "num_levels=2;disable_auto_compactions=true;\
                               write_buffer_size=268435456";
                self.fill_with(directory, options, odd, false)
            }
        }
    }

    /// Writes keys, which must be in ascending order, and flushes them. If `moves_down`, moves the
    /// tables to the last level.
    fn fill_with(
        &self,
        directory: &Path,
        options: &str,
        keys: impl Iterator<Item = u64>,
        moves_down: bool,
    ) -> Result<(), Failure> {
        let mut open = OpenOptions::default();
        open.set_from_string(&format!(
            "create_if_missing=true;{};{}{options}",
            self.tree_options.options(),
            self.compression
        ))?;
        let db = Db::open(directory, &open)?;
        let family = db.cf_handle("default")?;
        let ratio = self.compression_ratio.unwrap_or(1.0);
        let values = Values::compressible(self.value_bytes, ratio, self.keys);
        let writes = WriteOptions::new().with_disable_wal(true);
        let mut reported_at = Instant::now();
        for number in keys {
            db.put_cf_opt(&family, key(number), values.get(number), &writes)?;
            if reported_at.elapsed().as_secs() >= 10 {
                say!("  at key {number}");
                reported_at = Instant::now();
            }
        }
        db.flush_cf(&family)?;
        if moves_down {
            // The tables do not overlap, so this compaction moves them without rewriting them.
            db.compact_range_cf_opt(&family, None, None, &CompactRangeOptions::default())?;
        }
        Ok(db.close()?)
    }
}
