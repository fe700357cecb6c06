//! Sizes and durations as text, in the formats that Iggy accepts.

use std::time::Duration;

/// Prefixes of units of sizes. A prefix with index `n` denotes the factor 1000 to the power of `n`,
/// or 1024 to the power of `n` if an `i` follows the prefix.
const PREFIXES: [&str; 7] = ["", "k", "m", "g", "t", "p", "e"];

/// A configured limit on a size or an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound<T> {
    /// The server's default.
    Default,
    /// No limit.
    Unlimited,
    /// A limit with this value.
    At(T),
}

/// Parses a limit: a word that means "unlimited" or "default", or a value that `parse` converts.
pub(crate) fn parse_bound<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Bound<T>> {
    match text.trim().to_ascii_lowercase().as_str() {
        "unlimited" | "none" | "disabled" | "never_expire" => Some(Bound::Unlimited),
        "default" | "server_default" => Some(Bound::Default),
        _ => parse(text).map(Bound::At),
    }
}

/// Parses a size, and returns it in bytes. A size is a number, optionally with a fraction and a
/// unit, such as "64 MiB", "1.5GB" or "4096".
///
/// A unit that ends in a lower-case `b`, which means bits in Iggy, is rejected.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = size_factor(unit.trim())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.ends_with('.') || fraction.len() > 9 {
        return None;
    }
    let whole: u128 = whole.parse().ok()?;
    let whole = whole.checked_mul(factor)?;
    let part = match fraction {
        "" => 0,
        fraction => {
            let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
            fraction.parse::<u128>().ok()?.checked_mul(factor)? / scale
        }
    };
    u64::try_from(whole.checked_add(part)?).ok()
}

fn size_factor(unit: &str) -> Option<u128> {
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    if unit.ends_with('b') {
        return None;
    }
    let (prefix, base) = match unit.strip_suffix(['i', 'I']) {
        Some(prefix) if !prefix.is_empty() => (prefix, 1024_u128),
        Some(_) => return None,
        None => (unit, 1000),
    };
    let prefix = prefix.to_ascii_lowercase();
    let power = PREFIXES.iter().position(|known| *known == prefix)?;
    Some(base.pow(u32::try_from(power).ok()?))
}

/// Parses a duration: whole numbers with units, such as "30s", "1 m", "1h 30m" or "7 days". Only
/// "0" needs no unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim().to_lowercase();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.as_str();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(digits);
        let behind = behind.trim_start();
        let letters = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        total = total.checked_add(span(number.parse().ok()?, unit)?)?;
        rest = behind.trim_start();
    }
    Some(total)
}

/// Returns the duration of `number` units. A month has 30.44 days, a year 365.25.
fn span(number: u64, unit: &str) -> Option<Duration> {
    let seconds = |factor: u64| number.checked_mul(factor).map(Duration::from_secs);
    match unit {
        "nanos" | "nsec" | "ns" => Some(Duration::from_nanos(number)),
        "usec" | "us" | "µs" => Some(Duration::from_micros(number)),
        "millis" | "msec" | "ms" => Some(Duration::from_millis(number)),
        "seconds" | "second" | "secs" | "sec" | "s" => seconds(1),
        "minutes" | "minute" | "mins" | "min" | "m" => seconds(60),
        "hours" | "hour" | "hrs" | "hr" | "h" => seconds(3600),
        "days" | "day" | "d" => seconds(86_400),
        "weeks" | "week" | "wk" | "w" => seconds(7 * 86_400),
        "months" | "month" => seconds(2_630_016),
        "years" | "year" | "yr" | "y" => seconds(31_557_600),
        _ => None,
    }
}

/// Formats a size so that [`parse_size`] returns the same number of bytes.
pub(super) fn format_size(bytes: u64) -> String {
    for (power, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        let factor = 1_u64 << power;
        if bytes > 0 && bytes.is_multiple_of(factor) {
            return format!("{} {unit}", bytes / factor);
        }
    }
    format!("{bytes} B")
}

/// Formats a duration so that [`parse_duration`] returns the same duration.
pub(super) fn format_duration(duration: Duration) -> String {
    let mut parts = Vec::new();
    let mut seconds = duration.as_secs();
    for (unit, factor) in [("days", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
        if seconds >= factor {
            parts.push(format!("{} {unit}", seconds / factor));
            seconds %= factor;
        }
    }
    match duration.subsec_nanos() {
        0 => {}
        nanos if nanos.is_multiple_of(1_000_000) => parts.push(format!("{} ms", nanos / 1_000_000)),
        nanos if nanos.is_multiple_of(1000) => parts.push(format!("{} us", nanos / 1000)),
        nanos => parts.push(format!("{nanos} ns")),
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}
