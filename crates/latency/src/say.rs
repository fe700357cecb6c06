//! Progress messages on standard error. If writing one fails, the error is ignored.

/// Formats a line and writes it to standard error.
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
