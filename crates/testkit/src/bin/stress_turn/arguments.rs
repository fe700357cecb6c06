//! Parses the command line of the program.

use std::path::PathBuf;

const USAGE: &str = "usage: stress_turn DIRECTORY --reference FILE [--seed N] [--milliseconds N]
    [--options TEXT] [--expected FILE] [--max-key N] [--entity-one-in N] [--threads N]
    [--keeps-sequence] [--settled] [--no-delete-range] [--any-keys]";

/// The arguments of the program.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    /// Directory of the database.
    pub(crate) directory: PathBuf,
    /// Reference file of this turn. The first run of the turn writes the contents of the database
    /// to it; all later runs of the turn must find the same contents.
    pub(crate) reference: PathBuf,
    /// Seed of the random choices.
    pub(crate) seed: u64,
    /// Duration for which the program works on the database, in milliseconds.
    pub(crate) milliseconds: u64,
    /// Option string that overrides options of the database's OPTIONS file.
    pub(crate) options: Option<String>,
    /// File in which `db_stress` keeps the expected state of its keys; `None` to check no state.
    pub(crate) expected: Option<PathBuf>,
    /// Number of keys that `db_stress` uses in each column family.
    pub(crate) max_key: u64,
    /// The value of `use_put_entity_one_in` with which `db_stress` runs; 0 if it writes no
    /// entities.
    pub(crate) entity_one_in: u32,
    /// Number of threads that work on the database.
    pub(crate) threads: u64,
    /// Whether the program makes no writes. The last sequence number must then stay the same.
    pub(crate) keeps_sequence: bool,
    /// Whether a run must leave the contents of the database unchanged even if the run is killed.
    /// If so, the program puts and deletes each extra key in the same batch, and creates no extra
    /// column family.
    pub(crate) settled: bool,
    /// Whether the program writes no range tombstones.
    pub(crate) no_delete_range: bool,
    /// Whether the database has other keys than the numbered keys of `db_stress`. The program may
    /// then overwrite any key.
    pub(crate) any_keys: bool,
}

impl Arguments {
    /// Parses a command line.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            directory: words.next().ok_or(USAGE)?.into(),
            reference: PathBuf::new(),
            seed: fastrand::u64(..),
            milliseconds: 5000,
            options: None,
            expected: None,
            max_key: 0,
            entity_one_in: 0,
            threads: 3,
            keeps_sequence: false,
            settled: false,
            no_delete_range: false,
            any_keys: false,
        };
        while let Some(name) = words.next() {
            match name.as_str() {
                "--keeps-sequence" => parsed.keeps_sequence = true,
                "--settled" => parsed.settled = true,
                "--no-delete-range" => parsed.no_delete_range = true,
                "--any-keys" => parsed.any_keys = true,
                name => {
                    let value = words.next().ok_or_else(|| format!("{name}: no value\n{USAGE}"))?;
                    parsed.set(name, value)?;
                }
            }
        }
        if parsed.reference.as_os_str().is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(parsed)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
        match name {
            "--reference" => self.reference = value.into(),
            "--options" => self.options = Some(value),
            "--expected" => self.expected = Some(value.into()),
            "--seed" => self.seed = number()?,
            "--milliseconds" => self.milliseconds = number()?,
            "--max-key" => self.max_key = number()?,
            "--threads" => self.threads = number()?,
            "--entity-one-in" => {
                self.entity_one_in = number()?.try_into().map_err(|_| USAGE)?;
            }
            _ => return Err(format!("{name}: unknown\n{USAGE}")),
        }
        Ok(())
    }
}
