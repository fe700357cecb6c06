//! Tests of every option that Tailwater honours. A test fails if its option is ignored.
//!
//! Each test opens databases on a simulated disk, with the option and without it, and compares what
//! can be observed: files and their contents, calls to the disk, properties, and errors.

/// Declares tests, each with the options whose effects it shows. Also declares the constant
/// `SHOWN`, which lists the tests with these options.
macro_rules! effects {
    ($($test:ident shows $($option:literal),+ $body:block)*) => {
        /// The name of each test in this file, with the options whose effects the test shows.
        pub(crate) const SHOWN: &[(&str, &[&str])] =
            &[$((stringify!($test), &[$($option),+])),*];

        $(#[test]
        fn $test() $body)*
    };
}

pub(crate) mod caches;
pub(crate) mod database;
pub(crate) mod io_modes;
pub(crate) mod logs;
pub(crate) mod memtables;
pub(crate) mod reads;
mod support;
pub(crate) mod tables;
pub(crate) mod trees;
mod watched;
