//! Column families of an open database.

use std::ffi::{CStr, c_char, c_int};

use tailwater::options::ColumnFamilyOptions;
use tailwater::{ColumnFamily, FamilyObjects};

use crate::boundary::{Failure, Outcome, copy_bytes, copy_list, entry, give, release, texts};
use crate::database::rocksdb_t;
use crate::environment;
use crate::options::rocksdb_options_t;

/// A handle of a column family. It stays valid after the database is closed.
pub(crate) struct rocksdb_column_family_handle_t {
    pub(crate) family: ColumnFamily,
}

/// Returns the name of a column family.
pub(crate) fn family_name(name: &CStr) -> Outcome<&str> {
    name.to_str().map_err(|_| {
        let name = name.to_bytes().escape_ascii();
        Failure::invalid(format!("the column family name '{name}' is not UTF-8"))
    })
}

/// Checks the options of new column families, and returns them with their objects.
fn prepare(
    db: &rocksdb_t,
    options: &rocksdb_options_t,
) -> Outcome<(ColumnFamilyOptions, FamilyObjects)> {
    db.ready()?;
    options.marks.check(db)?;
    let mut family = options.family.clone();
    environment::apply_to_family(&mut family)?;
    Ok((family, options.objects()?))
}

entry! {
    fn rocksdb_create_column_family(
        db: shared rocksdb_t,
        column_family_options: &rocksdb_options_t,
        column_family_name: text,
        errptr,
    ) -> *mut rocksdb_column_family_handle_t {
        let (mut created, outcome) = create(db, column_family_options, &[column_family_name]);
        outcome?;
        let family = created.pop().ok_or_else(|| Failure::invalid("no column family"))?;
        Ok(give(rocksdb_column_family_handle_t { family }))
    }
}

/// A list of handles, and the error that ended it.
fn create(
    db: &rocksdb_t,
    options: &rocksdb_options_t,
    names: &[&CStr],
) -> (Vec<ColumnFamily>, Outcome<()>) {
    let names: Outcome<Vec<&str>> = names.iter().map(|name| family_name(name)).collect();
    let prepared = names.and_then(|names| Ok((names, prepare(db, options)?)));
    let (names, (options, objects)) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return (Vec::new(), Err(failure)),
    };
    let families: Vec<(&str, &ColumnFamilyOptions)> =
        names.into_iter().map(|name| (name, &options)).collect();
    match db.db.create_cfs_with_objects(&families, &objects) {
        Ok(created) => (created, Ok(())),
        Err(error) => (error.created, Err(error.error.into())),
    }
}

entry! {
    /// Returns the handles that were made before an error, too.
    fn rocksdb_create_column_families(
        db: shared rocksdb_t,
        column_family_options: &rocksdb_options_t,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        lencfs: out usize,
        errptr: *mut *mut c_char,
    ) -> *mut *mut rocksdb_column_family_handle_t {
        // SAFETY: the caller passes an array of this length.
        let names = unsafe {
            texts(column_family_names, num_column_families, "column_family_names")
        };
        let (created, outcome) = match names {
            Ok(names) => create(db, column_family_options, &names),
            Err(failure) => (Vec::new(), Err(failure)),
        };
        if let Err(failure) = outcome {
            // SAFETY: the caller passes null, or a pointer to null or to an error string.
            unsafe { crate::boundary::replace_error(errptr, &failure) };
        }
        lencfs.set(created.len());
        let handles: Vec<_> = created
            .into_iter()
            .map(|family| give(rocksdb_column_family_handle_t { family }))
            .collect();
        Ok(copy_list(&handles))
    }
}

entry! {
    fn rocksdb_create_column_families_destroy(list: *mut *mut rocksdb_column_family_handle_t) {
        // SAFETY: the caller passes what `rocksdb_create_column_families` returned.
        unsafe { release(list.cast()) };
        Ok(())
    }
}

entry! {
    fn rocksdb_drop_column_family(
        db: shared rocksdb_t,
        handle: shared rocksdb_column_family_handle_t,
        errptr,
    ) {
        db.ready()?;
        db.db.drop_cf(&handle.family)?;
        Ok(())
    }
}

entry! {
    fn rocksdb_get_default_column_family_handle(
        db: shared rocksdb_t,
    ) -> *mut rocksdb_column_family_handle_t {
        Ok(give(rocksdb_column_family_handle_t { family: db.db.default_cf().clone() }))
    }
}

entry! {
    fn rocksdb_column_family_handle_destroy(handle: own rocksdb_column_family_handle_t) {
        drop(handle);
        Ok(())
    }
}

entry! {
    fn rocksdb_column_family_handle_get_id(
        handle: shared rocksdb_column_family_handle_t,
    ) -> u32 {
        Ok(handle.family.id())
    }
}

entry! {
    fn rocksdb_column_family_handle_get_name(
        handle: shared rocksdb_column_family_handle_t,
        name_len: out usize,
    ) -> *mut c_char {
        let name = handle.family.name();
        name_len.set(name.len());
        Ok(copy_bytes(name.as_bytes()))
    }
}
