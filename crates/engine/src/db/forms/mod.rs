//! Methods of [`Db`] that call other methods with default arguments. The names are those of crate
//! `rocksdb`.
//!
//! Each operation has a full form: the suffix `_cf` means that it takes a column family, and `_opt`
//! that it takes options, which are the last parameter. The shorter forms use the column family
//! `default` and default options, and are inlined calls of the full form. The multi-gets are an
//! exception: those of one column family call `batched_multi_get_cf_opt`, and `multi_get_cf` takes
//! pairs of a column family and a key.

mod maintenance;
mod reading;
mod writing;
