//! What is said on standard error. If nobody can be told, nobody is: that is no reason to fail.

/// Says a line on standard error.
macro_rules! say {
    ($($what:tt)*) => {
        $crate::say::line(format_args!($($what)*))
    };
}

/// Says a line on standard error.
pub(crate) fn line(what: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{what}");
}
