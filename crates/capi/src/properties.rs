//! Properties, and changes of options, of an open database.

use std::ffi::{CStr, c_char, c_int};

use tailwater::ColumnFamily;
use tailwater::options::{DbOptions, OptionTable, TailwaterOptions};

use crate::boundary::{Class, Failure, Outcome, copy_text, entry, texts};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::read_options::rocksdb_readoptions_t;

/// Returns a property's value; null if there is none.
fn property(db: &rocksdb_t, family: &ColumnFamily, name: &CStr) -> Outcome<*mut c_char> {
    let Ok(name) = name.to_str() else { return Ok(std::ptr::null_mut()) };
    let value = db.db.property_value_cf(family, name)?;
    Ok(value.map_or(std::ptr::null_mut(), |value| copy_text(&value)))
}

/// Properties that are texts in RocksDB although they are numbers: the beginnings of their names.
const TEXTS: [&str; 2] = ["rocksdb.num-files-at-level", "rocksdb.compression-ratio-at-level"];

/// Returns a property that is a number.
fn number(db: &rocksdb_t, family: &ColumnFamily, name: &CStr) -> Option<u64> {
    let name = name.to_str().ok()?;
    if TEXTS.iter().any(|text| name.starts_with(text)) {
        return None;
    }
    db.db.property_value_cf(family, name).ok()??.parse().ok()
}

entry! {
    fn rocksdb_property_value(db: shared rocksdb_t, propname: text) -> *mut c_char {
        property(db, db.db.default_cf(), propname)
    }
}

entry! {
    fn rocksdb_property_value_cf(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        propname: text,
    ) -> *mut c_char {
        property(db, &column_family.family, propname)
    }
}

entry! {
    /// Returns 0 if the property has a value, otherwise -1.
    fn rocksdb_property_int(
        db: shared rocksdb_t,
        propname: text,
        out_val: out u64,
    ) -> c_int {
        let Some(value) = number(db, db.db.default_cf(), propname) else { return Ok(-1) };
        out_val.set(value);
        Ok(0)
    }
}

entry! {
    fn rocksdb_property_int_cf(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        propname: text,
        out_val: out u64,
    ) -> c_int {
        let Some(value) = number(db, &column_family.family, propname) else { return Ok(-1) };
        out_val.set(value);
        Ok(0)
    }
}

/// Whether these options have one with this name that can be changed in an open database.
fn is_changeable<T: OptionTable>(name: &str) -> bool {
    T::table().iter().any(|option| option.name == name && option.mutability.is_mutable())
}

/// Returns the options of two parallel arrays: names and values.
///
/// # Safety
/// The arrays have `count` C strings.
unsafe fn options<'a>(
    count: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Outcome<Vec<(&'a str, &'a str)>> {
    // SAFETY: see above.
    let (keys, values) = unsafe { (texts(keys, count, "keys")?, texts(values, count, "values")?) };
    if keys.is_empty() {
        return Err(Failure::invalid("empty input"));
    }
    let utf8 = |text: &'a CStr| {
        text.to_str().map_err(|error| Failure::invalid(format!("{text:?}: {error}")))
    };
    keys.into_iter().zip(values).map(|(key, value)| Ok((utf8(key)?, utf8(value)?))).collect()
}

entry! {
    fn rocksdb_set_options(
        db: shared rocksdb_t,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr,
    ) {
        db.ready()?;
        // SAFETY: the caller passes arrays of this length.
        let changes = unsafe { options(count, keys, values)? };
        Ok(db.db.set_options_cf(db.db.default_cf(), &changes)?)
    }
}

entry! {
    fn rocksdb_set_options_cf(
        db: shared rocksdb_t,
        handle: shared rocksdb_column_family_handle_t,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr,
    ) {
        db.ready()?;
        // SAFETY: the caller passes arrays of this length.
        let changes = unsafe { options(count, keys, values)? };
        Ok(db.db.set_options_cf(&handle.family, &changes)?)
    }
}

entry! {
    fn rocksdb_set_db_options(
        db: shared rocksdb_t,
        count: c_int,
        keys: *const *const c_char,
        values: *const *const c_char,
        errptr,
    ) {
        db.ready()?;
        // SAFETY: the caller passes arrays of this length.
        let changes = unsafe { options(count, keys, values)? };
        for (name, _) in &changes {
            if !is_changeable::<DbOptions>(name) && !is_changeable::<TailwaterOptions>(name) {
                let message = format!("Unrecognized option: {name}");
                return Err(Failure::new(Class::NotFound, message));
            }
        }
        Ok(db.db.set_database_options(&changes)?)
    }
}

entry! {
    /// Checks more than the checksums: also the order of keys, indexes, filters and properties.
    fn rocksdb_verify_checksum(db: shared rocksdb_t, errptr) {
        db.ready()?;
        Ok(db.db.verify_tables()?)
    }
}

entry! {
    fn rocksdb_verify_checksum_with_options(
        db: shared rocksdb_t,
        options: &rocksdb_readoptions_t,
        errptr,
    ) {
        options.with(db, |_| Ok(db.db.verify_tables()?))
    }
}
