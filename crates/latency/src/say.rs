//! Messages on standard error. Failures to write them are ignored.

/// Writes a line to standard error.
#[macro_export]
macro_rules! say {
    ($($what:tt)*) => {
        $crate::say::line(format_args!($($what)*))
    };
}

/// Writes a line to standard error.
pub fn line(what: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{what}");
}
