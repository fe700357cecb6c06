//! Checks filters of log lines, in the syntax of the variable `RUST_LOG`.
//!
//! In that syntax, a word that is no level is the name of a target, whose lines are then the only
//! ones that are logged. A misspelt level would therefore silence the log. So every directive here
//! needs a level, and the filter needs a level for the targets that it does not name.

/// The expected form of a filter, for error messages.
pub(super) const EXPECTED: &str = "off, error, warn, info, debug or trace, optionally followed by \
                                   levels of targets, such as \"info,tailwater_log=debug\"";

/// Names of levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns whether a filter is valid.
pub(super) fn is_valid(filter: &str) -> bool {
    let directives: Vec<&str> = filter.split(',').map(str::trim).collect();
    directives.iter().any(|directive| is_level(directive))
        && directives.iter().all(|directive| is_directive(directive))
}

fn is_directive(directive: &str) -> bool {
    match directive.rsplit_once('=') {
        None => is_level(directive),
        Some((target, level)) => !target.trim().is_empty() && is_level(level.trim()),
    }
}

fn is_level(text: &str) -> bool {
    LEVELS.iter().any(|level| text.eq_ignore_ascii_case(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_a_level() {
        for filter in ["info", "INFO", "off", "warn,tailwater_log=debug", "a::b=trace, error"] {
            assert!(is_valid(filter), "{filter}");
        }
        for filter in [
            "",
            " ",
            ",",
            "inof",
            "warning",
            "1",
            "tailwater_log=debug",
            "info,",
            "info,a=",
            "info,a",
        ] {
            assert!(!is_valid(filter), "{filter}");
        }
    }
}
