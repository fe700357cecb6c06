//! Opening, destroying and listing databases.

use std::ffi::{CStr, c_char, c_int, c_uchar};
use std::path::Path;

use tailwater::{Db, ErrorKind, OpenOptions};

use crate::boundary::{
    Class, Failure, Out, Outcome, copy_list, copy_text, entry, give, list, path, pointers, texts,
};
use crate::database::rocksdb_t;
use crate::environment;
use crate::families::{family_name, rocksdb_column_family_handle_t};
use crate::options::rocksdb_options_t;

/// A column family to open: its name and its options.
type Family<'a> = (&'a str, &'a rocksdb_options_t);

/// The way to open a database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    Read { refuse_logs: bool },
}

/// Opens the database at `directory`.
fn open(
    options: &rocksdb_options_t,
    directory: &Path,
    families: &[Family<'_>],
    access: Access,
) -> Outcome<rocksdb_t> {
    options.marks.refusal()?;
    for (_, family) in families {
        family.marks.refusal()?;
    }
    if !families.iter().any(|(name, _)| *name == DEFAULT) {
        return Err(Failure::invalid("Default column family not specified"));
    }
    let mut open = OpenOptions::default();
    options.add_database(&mut open);
    for (name, family) in families {
        family.add_family(&mut open, name)?;
    }
    let changes = environment::apply(&mut open)?;
    let db = match access {
        Access::Write => {
            check_families(directory, &open, families)?;
            Db::open(directory, &open).map_err(|error| match error.kind() {
                ErrorKind::NotFound => Failure::from(error).with_class(Class::InvalidArgument),
                _ => error.into(),
            })?
        }
        Access::Read { refuse_logs } => {
            if refuse_logs {
                check_logs(directory, &open)?;
            }
            let db = Db::open_read_only(directory, &open).map_err(|error| match error.kind() {
                // As in RocksDB, which only checks for a database if it may not create one.
                ErrorKind::NotFound if options.database.create_if_missing => {
                    Failure::from(error).with_class(Class::PathNotFound)
                }
                ErrorKind::NotFound => Failure::from(error).with_class(Class::NotFound),
                _ => error.into(),
            })?;
            check_names(&db, families)?;
            db
        }
    };
    let opened = rocksdb_t::new(db);
    opened.note(&options.marks.notes());
    for (_, family) in families {
        opened.note(&family.marks.notes());
    }
    for change in changes {
        opened.db.write_to_log(&change);
    }
    Ok(opened)
}

const DEFAULT: &str = "default";

/// Refuses a database that has other column families than those to open.
fn check_families(directory: &Path, options: &OpenOptions, families: &[Family<'_>]) -> Outcome<()> {
    // The open call reports what keeps a list from being read.
    let Ok(existing) = Db::list_cf(directory, options) else { return Ok(()) };
    let is_left_out = |name: &String| !families.iter().any(|(opened, _)| opened == name);
    let left_out: Vec<String> = existing.into_iter().filter(is_left_out).collect();
    if left_out.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid(format!("Column families not opened: {}", left_out.join(", "))))
}

/// Refuses names of column families that a database opened for reading does not have.
fn check_names(db: &Db, families: &[Family<'_>]) -> Outcome<()> {
    match families.iter().find(|(name, _)| db.cf_handle(name).is_err()) {
        None => Ok(()),
        Some((name, _)) => Err(Failure::invalid(format!("Column family not found: {name}"))),
    }
}

/// Refuses a database that has a log.
fn check_logs(directory: &Path, options: &OpenOptions) -> Outcome<()> {
    let own = options.database().wal_dir.as_str();
    let logs = if own.is_empty() { directory } else { Path::new(own) };
    let entries = options.storage().list(logs).unwrap_or_default();
    match entries.iter().find(|entry| entry.name.ends_with(".log")) {
        None => Ok(()),
        Some(log) => {
            let message = format!("the database has the log {}", log.name);
            Err(Failure::new(Class::Corruption, message))
        }
    }
}

entry! {
    fn rocksdb_open(options: &rocksdb_options_t, name: text, errptr) -> *mut rocksdb_t {
        open(options, path(name), &[(DEFAULT, options)], Access::Write).map(give)
    }
}

entry! {
    fn rocksdb_open_for_read_only(
        options: &rocksdb_options_t,
        name: text,
        error_if_wal_file_exists: c_uchar,
        errptr,
    ) -> *mut rocksdb_t {
        let access = Access::Read { refuse_logs: error_if_wal_file_exists != 0 };
        open(options, path(name), &[(DEFAULT, options)], access).map(give)
    }
}

/// Opens column families, whose names and options are parallel arrays, and stores their handles.
///
/// # Safety
/// The pointers are to arrays of `count` items, or null if `count` is not positive.
unsafe fn open_families(
    options: &rocksdb_options_t,
    directory: &CStr,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    access: Access,
) -> Outcome<*mut rocksdb_t> {
    let length = usize::try_from(count).unwrap_or(0);
    // SAFETY: see above.
    let (names, family_options) = unsafe {
        (
            texts(names, count, "column_family_names")?,
            pointers(family_options, length, "column_family_options")?,
        )
    };
    // SAFETY: see above. This only checks for null.
    unsafe { list(handles.cast_const(), length, "column_family_handles")? };
    let names: Vec<&str> = names.into_iter().map(family_name).collect::<Outcome<_>>()?;
    let families: Vec<Family<'_>> = names.iter().copied().zip(family_options).collect();
    let opened = open(options, path(directory), &families, access)?;
    let found: Vec<_> =
        names.iter().map(|name| Ok(opened.db.cf_handle(name)?)).collect::<Outcome<_>>()?;
    for (at, family) in found.into_iter().enumerate() {
        // SAFETY: the array has room for `count` handles.
        unsafe { Out::new(handles.add(at)) }.set(give(rocksdb_column_family_handle_t { family }));
    }
    Ok(give(opened))
}

entry! {
    fn rocksdb_open_column_families(
        options: &rocksdb_options_t,
        name: text,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr,
    ) -> *mut rocksdb_t {
        // SAFETY: the caller passes arrays of this length.
        unsafe {
            open_families(
                options,
                name,
                num_column_families,
                column_family_names,
                column_family_options,
                column_family_handles,
                Access::Write,
            )
        }
    }
}

entry! {
    fn rocksdb_open_for_read_only_column_families(
        options: &rocksdb_options_t,
        name: text,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        error_if_wal_file_exists: c_uchar,
        errptr,
    ) -> *mut rocksdb_t {
        let access = Access::Read { refuse_logs: error_if_wal_file_exists != 0 };
        // SAFETY: the caller passes arrays of this length.
        unsafe {
            open_families(
                options,
                name,
                num_column_families,
                column_family_names,
                column_family_options,
                column_family_handles,
                access,
            )
        }
    }
}

entry! {
    fn rocksdb_list_column_families(
        options: &rocksdb_options_t,
        name: text,
        lencf: out usize,
        errptr,
    ) -> *mut *mut c_char {
        lencf.set(0);
        options.marks.refusal()?;
        let names = Db::list_cf(path(name), &OpenOptions::default()).map_err(|error| {
            match error.kind() {
                ErrorKind::NotFound => Failure::from(error).with_class(Class::PathNotFound),
                _ => error.into(),
            }
        })?;
        lencf.set(names.len());
        let names: Vec<*mut c_char> = names.iter().map(|name| copy_text(name)).collect();
        Ok(copy_list(&names))
    }
}

entry! {
    fn rocksdb_list_column_families_destroy(list: *mut *mut c_char, len: usize) {
        // SAFETY: the caller passes what `rocksdb_list_column_families` returned.
        unsafe { free_texts(list, len) };
        Ok(())
    }
}

/// Frees an array of strings.
///
/// # Safety
/// `list` is null, or an array from `malloc` of this many pointers from `malloc`.
pub(crate) unsafe fn free_texts(texts: *mut *mut c_char, length: usize) {
    // SAFETY: see above.
    let items = unsafe { list(texts.cast_const(), length, "list") }.unwrap_or_default();
    for &item in items {
        // SAFETY: see above.
        unsafe { crate::boundary::release(item.cast()) };
    }
    // SAFETY: see above.
    unsafe { crate::boundary::release(texts.cast()) };
}

entry! {
    fn rocksdb_destroy_db(options: &rocksdb_options_t, name: text, errptr) {
        options.marks.refusal()?;
        let mut open = OpenOptions::default();
        options.add_database(&mut open);
        let directory = path(name);
        match Db::destroy(directory, &open) {
            // Without this file there is no database, although another one may have tables here.
            Err(error) if open.storage().metadata(&directory.join("CURRENT")).is_ok() => {
                Err(error.into())
            }
            _ => Ok(()),
        }
    }
}
