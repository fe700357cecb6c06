//! Options from option strings and from a database's files.

use std::ffi::c_char;
use std::sync::Arc;

use tailwater::{ErrorKind, OpenOptions, options};

use crate::boundary::{Class, Failure, copy_list, copy_text, entry, give, list, owned, path};
use crate::cache::rocksdb_cache_t;
use crate::env::rocksdb_env_t;
use crate::open::free_texts;
use crate::options::rocksdb_options_t;

entry! {
    /// Tailwater's own options are accepted as well.
    fn rocksdb_get_options_from_string(
        base_options: *const rocksdb_options_t,
        opts_str: text,
        new_options: *mut rocksdb_options_t,
        errptr,
    ) {
        // SAFETY: the caller passes objects that live during the call. Both may be the same object.
        let mut changed = unsafe { crate::boundary::reference(base_options, "base_options")? }
            .clone();
        let text = opts_str.to_str().map_err(|error| Failure::invalid(error.to_string()))?;
        options::set_from_string(&mut changed.database, &mut changed.family, text)?;
        // SAFETY: see above. The base options are no longer used.
        let new = unsafe { crate::boundary::reference_mut(new_options, "new_options")? };
        *new = changed;
        Ok(())
    }
}

entry! {
    fn rocksdb_load_latest_options(
        db_path: text,
        env: maybe rocksdb_env_t,
        ignore_unknown_options: bool,
        cache: maybe rocksdb_cache_t,
        db_options: out *mut rocksdb_options_t,
        num_column_families: out usize,
        column_family_names: out *mut *mut c_char,
        column_family_options: out *mut *mut rocksdb_options_t,
        errptr,
    ) {
        let _ = ignore_unknown_options;
        db_options.set(std::ptr::null_mut());
        num_column_families.set(0);
        column_family_names.set(std::ptr::null_mut());
        column_family_options.set(std::ptr::null_mut());
        env.map_or(Ok(()), |env| env.marks.refusal())?;
        let not_found = |error: tailwater::Error| match error.kind() {
            ErrorKind::NotFound => Failure::from(error).with_class(Class::NotFound),
            _ => error.into(),
        };
        let loaded = OpenOptions::load(path(db_path)).map_err(not_found)?;
        let files = loaded.storage().list(path(db_path)).map_err(|error| not_found(error.into()))?;
        if !files.iter().any(|file| file.name.starts_with("OPTIONS-")) {
            let message = format!("no OPTIONS file in {}", path(db_path).display());
            return Err(Failure::new(Class::NotFound, message));
        }
        let mut names = Vec::new();
        let mut families = Vec::new();
        for name in loaded.column_families() {
            names.push(copy_text(name));
            families.push(give(rocksdb_options_t {
                family: loaded.column_family(name).clone(),
                block_cache: cache.map(|cache| Arc::clone(&cache.cache)),
                ..rocksdb_options_t::default()
            }));
        }
        db_options.set(give(rocksdb_options_t {
            database: loaded.database().clone(),
            ..rocksdb_options_t::default()
        }));
        num_column_families.set(names.len());
        column_family_names.set(copy_list(&names));
        column_family_options.set(copy_list(&families));
        Ok(())
    }
}

entry! {
    fn rocksdb_load_latest_options_destroy(
        db_options: own rocksdb_options_t,
        list_column_family_names: *mut *mut c_char,
        list_column_family_options: *mut *mut rocksdb_options_t,
        len: usize,
    ) {
        drop(db_options);
        // SAFETY: the caller passes what `rocksdb_load_latest_options` returned.
        unsafe {
            free_texts(list_column_family_names, len);
            let options = list(list_column_family_options.cast_const(), len, "list");
            for &options in options.unwrap_or_default() {
                drop(owned(options, "list"));
            }
            crate::boundary::release(list_column_family_options.cast());
        }
        Ok(())
    }
}
