//! Options as they were set, as opposed to the options in effect.
//!
//! Sanitizing replaces values that are out of range, and derives the defaults of some options from
//! other options ([`super::sanitize_database`]). Neither counts as set: if an option changes later,
//! everything is sanitized again from the options as they were set, so that no value outlasts its
//! reason.
//!
//! An OPTIONS file has no way to say that a value was derived. RocksDB records the sanitized
//! options there. Tailwater records the options as they were set, except that it records derived
//! values as RocksDB does. When options are read from a file, a value that equals the derived one
//! counts as derived.

use std::path::Path;

use super::column_family::ColumnFamilyOptions;
use super::database::DbOptions;
use super::sanitize::{sanitize_column_family, sanitize_database};
use super::schema::{OptionInfo, OptionTable};

/// The database options whose default is derived from other options.
const DERIVED_OF_DATABASE: [&str; 2] = ["bytes_per_sync", "delayed_write_rate"];

/// The column family options whose default is derived from other options.
const DERIVED_OF_FAMILY: [&str; 4] =
    ["arena_block_size", "max_compaction_bytes", "periodic_compaction_seconds", "ttl"];

/// The options of a database or column family, in both forms.
#[derive(Debug, Clone)]
pub(crate) struct SetOptions<T> {
    /// The options as they were set.
    pub(crate) set: T,
    /// The sanitized options.
    pub(crate) effective: T,
}

impl SetOptions<DbOptions> {
    /// Returns both forms of the options `set`. `directory` is the database's home directory.
    pub(crate) fn of_database(set: DbOptions, directory: &Path) -> Self {
        let mut effective = set.clone();
        sanitize_database(&mut effective, directory);
        Self { set, effective }
    }

    /// Returns the options to record in the OPTIONS file.
    pub(crate) fn recorded(&self) -> DbOptions {
        // The rate limiter is not recorded, so nothing that is derived from it may be.
        let mut effective = DbOptions { rate_limiter_bytes_per_sec: 0, ..self.set.clone() };
        sanitize_database(&mut effective, Path::new(""));
        let mut recorded = with_derived(&DERIVED_OF_DATABASE, &self.set, &effective);
        // A recorded path that names the home would be wrong after the database was moved.
        recorded.wal_dir.clone_from(&self.effective.wal_dir);
        recorded
    }
}

impl SetOptions<ColumnFamilyOptions> {
    /// Returns both forms of the options `set`. `database` are the database's sanitized options.
    pub(crate) fn of_family(set: ColumnFamilyOptions, database: &DbOptions) -> Self {
        let mut effective = set.clone();
        sanitize_column_family(&mut effective, database, false);
        Self { set, effective }
    }

    /// Returns the options to record in the OPTIONS file.
    pub(crate) fn recorded(&self) -> ColumnFamilyOptions {
        with_derived(&DERIVED_OF_FAMILY, &self.set, &self.effective)
    }
}

/// Resets each database option that has exactly the value that would be derived for it, so that it
/// counts as not set.
pub(crate) fn unset_derived_of_database(options: &mut DbOptions) {
    let sanitize = |options: &mut DbOptions| sanitize_database(options, Path::new(""));
    unset_derived(&DERIVED_OF_DATABASE, options, sanitize);
}

/// Resets each column family option that has exactly the value that would be derived for it, so
/// that it counts as not set.
pub(crate) fn unset_derived_of_family(options: &mut ColumnFamilyOptions, database: &DbOptions) {
    let sanitize =
        |options: &mut ColumnFamilyOptions| sanitize_column_family(options, database, false);
    unset_derived(&DERIVED_OF_FAMILY, options, sanitize);
}

fn unset_derived<T: OptionTable + Clone + Default>(
    names: &[&str],
    options: &mut T,
    sanitize: impl Fn(&mut T),
) {
    for info in derived(names) {
        let mut unset = options.clone();
        if (info.set)(&mut unset, &info.value_in(&T::default())).is_err() {
            continue;
        }
        let mut sanitized = unset.clone();
        sanitize(&mut sanitized);
        if info.value_in(&sanitized) == info.value_in(options) {
            *options = unset;
        }
    }
}

/// Returns the options as they were set, with the derived values of those that were not.
fn with_derived<T: OptionTable + Clone + Default>(names: &[&str], set: &T, effective: &T) -> T {
    let mut recorded = set.clone();
    for info in derived(names) {
        if info.value_in(set) == info.value_in(&T::default()) {
            // A printed value can be parsed, so this does not fail.
            let _ = (info.set)(&mut recorded, &info.value_in(effective));
        }
    }
    recorded
}

fn derived<T: OptionTable>(names: &[&str]) -> impl Iterator<Item = &'static OptionInfo<T>> {
    T::table().iter().filter(|info| names.contains(&info.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(text: &str) -> ColumnFamilyOptions {
        let mut options = ColumnFamilyOptions::default();
        options.set_from_string(text).expect(text);
        options
    }

    #[test]
    fn derived_values_are_recorded_and_count_as_unset_when_they_are_read_back() {
        let database = DbOptions::default();
        for text in [
            "",
            "write_buffer_size=1m;target_file_size_base=1m",
            "compaction_style=kCompactionStyleUniversal",
            "compaction_style=kCompactionStyleUniversal;ttl=86400",
        ] {
            let set = family(text);
            let both = SetOptions::of_family(set.clone(), &database);
            let mut recorded = both.recorded();
            for info in derived::<ColumnFamilyOptions>(&DERIVED_OF_FAMILY) {
                let (recorded, effective) = (&recorded, &both.effective);
                assert_eq!(info.value_in(recorded), info.value_in(effective), "{}", info.name);
            }
            unset_derived_of_family(&mut recorded, &database);
            assert_eq!(recorded, set, "{text}");
        }
        let set = DbOptions { rate_limiter_bytes_per_sec: 1 << 20, ..DbOptions::default() };
        let both = SetOptions::of_database(set.clone(), Path::new("/db"));
        let values = |it: &DbOptions| (it.bytes_per_sync, it.delayed_write_rate);
        assert_eq!(values(&both.effective), (1 << 20, 1 << 20));
        let mut recorded = both.recorded();
        assert_eq!(values(&recorded), (0, 16 << 20), "the rate is not recorded");
        recorded.rate_limiter_bytes_per_sec = 0;
        unset_derived_of_database(&mut recorded);
        assert_eq!(recorded, DbOptions::default());
    }

    #[test]
    fn values_that_differ_from_the_derived_ones_stay_set() {
        let database = DbOptions::default();
        let mut options = family("write_buffer_size=1m;arena_block_size=1m;ttl=0");
        let before = options.clone();
        unset_derived_of_family(&mut options, &database);
        assert_eq!(options, before);
    }
}
