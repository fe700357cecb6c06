//! The database that each run begins with a copy of.
//!
//! Each key has a value, and all of it is in the last level, as after filling and compacting; or,
//! where a compaction is to merge two inputs, every other key in level 0. Keys are put in order,
//! without a log, so that no byte is written twice. It is made once and kept: a
//! file in it says of what it was made, and is written before it gets its name.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tailwater::{CompactRangeOptions, Db, OpenOptions, WriteOptions};

use super::plan::{Kind, Parameters};
use super::shape::Shape;
use super::units::Bytes;
use crate::entries::{KEY_BYTES, RandomValues, key};
use crate::files::{read_json, write_json};
use crate::own::{OwnDirectory, remove_own};
use crate::store::Failure;

/// The file in it that says of what it was made.
pub(super) const DESCRIPTION: &str = "source.json";

/// What a source database is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    /// What makes the entries: another number, other entries.
    version: u32,
    keys: u64,
    value_bytes: usize,
    kind: Kind,
    shape: Shape,
}

impl Source {
    /// The one that an experiment begins with.
    pub(super) fn new(parameters: &Parameters) -> Self {
        let Parameters { keys, value_bytes, kind, shape, .. } = *parameters;
        Self { version: 1, keys, value_bytes, kind, shape }
    }

    /// How large it is about, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.keys * (KEY_BYTES + self.value_bytes) as u64
    }

    /// Where it is or would be, below `directory`.
    pub(super) fn path(&self, directory: &Path) -> PathBuf {
        let kind = match self.kind {
            Kind::Overwriting => "source",
            Kind::Merging => "source-to-merge",
        };
        directory.join(format!("{kind}-{}x{}", self.keys, self.value_bytes))
    }

    /// Whether it is there as it would be made.
    pub(super) fn is_there(&self, directory: &Path) -> bool {
        let described = read_json::<Self>(&self.path(directory).join(DESCRIPTION));
        matches!(described, Ok(Some(description)) if description == *self)
    }

    /// Makes it, in the place of another that was made here.
    ///
    /// # Errors
    /// Something else is in its place; those of the engine and of the filesystem.
    pub(super) fn build(&self, directory: &Path) -> Result<(), Failure> {
        let path = self.path(directory);
        let unfinished = path.with_extension("unfinished");
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
                // Large tables: reads look at each of level 0.
                let options = "num_levels=2;disable_auto_compactions=true;\
                               write_buffer_size=268435456";
                self.fill_with(directory, options, odd, false)
            }
        }
    }

    /// Puts keys that come in order, and moves them to the last level if that is asked for.
    fn fill_with(
        &self,
        directory: &Path,
        options: &str,
        keys: impl Iterator<Item = u64>,
        moves_down: bool,
    ) -> Result<(), Failure> {
        let mut open = OpenOptions::default();
        open.set_options(&format!("create_if_missing=true;{};{options}", self.shape.options()))?;
        let db = Db::open(directory, &open)?;
        let family = db.column_family("default")?;
        let values = RandomValues::new(self.value_bytes, self.keys);
        let writes = WriteOptions { disable_wal: true, ..WriteOptions::default() };
        let mut told = Instant::now();
        for number in keys {
            db.put(&family, &key(number), values.get(number), &writes)?;
            if told.elapsed().as_secs() >= 10 {
                say!("  at key {number}");
                told = Instant::now();
            }
        }
        db.flush(&family)?;
        if moves_down {
            // Nothing overlaps, so tables move as they are.
            db.compact_range(&family, None, None, &CompactRangeOptions::default())?;
        }
        Ok(db.close()?)
    }
}

#[expect(clippy::disallowed_methods, reason = "the experiment's own directory")]
fn rename(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::rename(from, to).map_err(|error| format!("{}: {error}", to.display()).into())
}
