//! Lines of keys and values, as `dump` and `scan` print them.

use crate::text::unescape;

/// Decodes a field: escaped text or hex.
pub(super) type Decode = fn(&[u8]) -> Result<Vec<u8>, &'static str>;

/// The contents of one line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The column family, if the line names one.
    pub(super) family: Option<String>,
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Entry {
    /// Parses a line without its end: key and value, or column family, key and value, separated by
    /// tabs. `decode` reads key and value. A column family is always escaped text, even if key and
    /// value are in hex.
    ///
    /// # Errors
    /// A description of the problem.
    pub(super) fn parse(line: &[u8], decode: Decode) -> Result<Self, String> {
        let mut fields = line.split(|&byte| byte == b'\t');
        let fields = [fields.next(), fields.next(), fields.next(), fields.next()];
        let (family, key, value) = match fields {
            [Some(key), Some(value), None, _] => (None, key, value),
            [Some(family), Some(key), Some(value), None] => (Some(family), key, value),
            [_, None, ..] => return Err("there is no tab between a key and a value".to_owned()),
            _ => return Err("there are more fields than column family, key and value".to_owned()),
        };
        Ok(Self {
            family: family.map(family_name).transpose()?,
            key: decode(key).map_err(|reason| format!("the key {reason}"))?,
            value: decode(value).map_err(|reason| format!("the value {reason}"))?,
        })
    }
}

fn family_name(field: &[u8]) -> Result<String, String> {
    let name = unescape(field).map_err(|reason| format!("the column family {reason}"))?;
    String::from_utf8(name).map_err(|_| "the column family is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::unhex;

    fn entry(family: Option<&str>, key: &[u8], value: &[u8]) -> Result<Entry, String> {
        Ok(Entry { family: family.map(str::to_owned), key: key.to_vec(), value: value.to_vec() })
    }

    #[test]
    fn a_line_has_two_fields_or_three() {
        assert_eq!(Entry::parse(b"k\tv", unescape), entry(None, b"k", b"v"));
        assert_eq!(Entry::parse(b"f\tk\tv", unescape), entry(Some("f"), b"k", b"v"));
        assert_eq!(Entry::parse(b"\t", unescape), entry(None, b"", b""));
        assert_eq!(Entry::parse(b"a\\x09b\t\\\\", unescape), entry(None, b"a\tb", b"\\"));
        assert_eq!(Entry::parse(b"00ff\t", unhex), entry(None, &[0, 255], b""));
        assert_eq!(Entry::parse(b"\\x66\t00\t41", unhex), entry(Some("f"), &[0], b"A"));
    }

    #[test]
    fn errors_name_the_invalid_field() {
        let problem = |line: &[u8], decode| Entry::parse(line, decode).unwrap_err();
        assert!(problem(b"", unescape).contains("no tab"));
        assert!(problem(b"key value", unescape).contains("no tab"));
        assert!(problem(b"a\tb\tc\td", unescape).contains("more fields"));
        assert!(problem(b"a\\q\tb", unescape).starts_with("the key has a backslash"));
        assert!(problem(b"a\tb\\", unescape).starts_with("the value has a backslash"));
        assert!(problem(b"\\xff\ta\tb", unescape).contains("not UTF-8"));
        assert!(problem(b"123\t", unhex).starts_with("the key is not hex"));
        assert!(problem(b"12\tzz", unhex).starts_with("the value is not hex"));
    }
}
