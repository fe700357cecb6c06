//! Tests of each honoured option, which fail if the option is ignored.
//!
//! Each test opens databases on a simulated disk, with the option and without it, and compares what
//! can be observed: files and their contents, calls to the disk, properties, and errors.

/// Declares tests, each with the options whose effects it shows. The constant `SHOWN` lists them.
macro_rules! effects {
    ($($test:ident shows $($option:literal),+ $body:block)*) => {
        /// The tests of this file, each with the options whose effects it shows.
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
