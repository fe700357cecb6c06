//! Encodes bytes as hexadecimal digits, for records and tokens.

use std::fmt::Write as _;

use serde::{Deserialize as _, Deserializer, Serializer, de};

/// Returns two digits for each byte of `bytes`, in lower case.
pub(super) fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        // Writing to a string never fails.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Returns the bytes that pairs of hexadecimal digits encode; `None` if `digits` contains anything
/// else.
pub(super) fn decode(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(bytes))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let digits = String::deserialize(deserializer)?;
    decode(&digits).ok_or_else(|| de::Error::custom("expected pairs of hexadecimal digits"))
}
