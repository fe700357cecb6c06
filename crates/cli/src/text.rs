//! Converts bytes to text and back, and formats counts.
//!
//! Keys and values are any bytes. As text, printable ASCII characters represent themselves, except
//! that a backslash is `\\`; every other byte is `\xNN`. Such text contains no tab or line end, and
//! represents exactly one string of bytes. In hex, two lowercase digits represent each byte.

use std::fmt::Write as _;

/// Maximum number of bytes shown of malformed input.
const EXCERPT_LENGTH: usize = 80;

/// Returns bytes as escaped text.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    push_escaped(&mut text, bytes);
    text
}

/// Appends bytes as escaped text.
pub(crate) fn push_escaped(text: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(text, "\\x{byte:02x}")),
        }
    }
}

/// Returns bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push_hex(&mut text, bytes);
    text
}

/// Appends bytes in hex.
pub(crate) fn push_hex(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Returns the bytes of a text in which `\\`, `\n`, `\r`, `\t`, `\0` and `\xNN` represent the bytes
/// that they name, and all other bytes represent themselves.
///
/// # Errors
/// A description of the problem, for any other backslash.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let (value, length) = match rest {
            [b'\\', ..] => (b'\\', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'0', ..] => (0, 1),
            [b'x', high, low, ..] => match (hex_digit(*high), hex_digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => return Err("has a \\x that is not followed by two hex digits"),
            },
            _ => {
                return Err(
                    "has a backslash that does not begin any of \\\\ \\n \\r \\t \\0 \\xNN",
                );
            }
        };
        bytes.push(value);
        rest = &rest[length..];
    }
    Ok(bytes)
}

/// Decodes a text of hex digits into bytes. The text may begin with `0x`.
///
/// # Errors
/// A description of the problem, if the text is anything but pairs of hex digits.
pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>, &'static str> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")).unwrap_or(text);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(hex_digit(*high)? << 4 | hex_digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(pair).collect();
    bytes.ok_or("is not hex: pairs of digits are expected")
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Returns the beginning of malformed input, in quotes, for an error message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    match bytes.get(..EXCERPT_LENGTH) {
        Some(beginning) => format!("'{}...'", escape(beginning)),
        None => format!("'{}'", escape(bytes)),
    }
}

/// Returns a count with its noun: `1 table`, `2 tables`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_round_trips_in_both_notations() {
        let bytes: Vec<u8> = (0..=255).chain([b'\\', b'x', b'4', b'1']).collect();
        assert_eq!(unescape(escape(&bytes).as_bytes()), Ok(bytes.clone()));
        assert_eq!(unhex(hex(&bytes).as_bytes()), Ok(bytes));
        assert_eq!(escape(b"a\\x41\t\xff"), "a\\\\x41\\x09\\xff");
        assert_eq!(unhex(b"0x00fF"), Ok(vec![0, 255]));
        assert_eq!(unescape("\\n\\t\\r\\0\u{e4}".as_bytes()), Ok(b"\n\t\r\0\xc3\xa4".to_vec()));
    }

    #[test]
    fn invalid_escapes_and_hex_are_refused() {
        for text in ["\\", "\\x", "\\x1", "\\xg0", "\\q", "a\\"] {
            assert!(unescape(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["0", "0x0", "gg", "00 1", "\u{e4}"] {
            assert!(unhex(text.as_bytes()).is_err(), "{text}");
        }
    }
}
