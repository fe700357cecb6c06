//! Tests of each honoured option that fail if it is ignored.
//!
//! Each test opens databases on a simulated disk, with the option and without it, and compares what
//! is visible from outside: files and their contents, calls to the disk, properties, errors.

/// Declares tests, each with the options that it shows. `SHOWN` lists them.
macro_rules! effects {
    ($($test:ident shows $($option:literal),+ $body:block)*) => {
        /// The tests of this file, each with the options that it shows.
        pub(crate) const SHOWN: &[(&str, &[&str])] =
            &[$((stringify!($test), &[$($option),+])),*];

        $(#[test]
        fn $test() $body)*
    };
}

pub(crate) mod database;
pub(crate) mod io_modes;
pub(crate) mod logs;
pub(crate) mod memtables;
pub(crate) mod reads;
mod support;
pub(crate) mod tables;
pub(crate) mod trees;
mod watched;
