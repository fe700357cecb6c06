//! The option string: `a=b;c={x=y;z={...}};`.
//!
//! A value is the text between `=` and the next `;`. A value that begins with a brace extends to
//! the matching closing brace and includes both braces; only white space may follow before the `;`.
//! White space around names and values is ignored, and braces around the whole string are removed.

use super::{TextError, TextLocation, is_space, trim};

/// One `name=value` of an option string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// The option's name.
    pub name: &'a str,
    /// The value as in the string, escaped and with its braces.
    pub value: &'a str,
    /// Offset of the value from the start of the string, in bytes.
    pub offset: usize,
}

/// Reads an option string. If a name is assigned twice, callers should use the last value.
///
/// # Errors
/// An assignment without `=` or name, braces that do not match, and text after a closing brace.
pub fn parse_option_string(text: &str) -> Result<Vec<Assignment<'_>>, TextError> {
    let whole = strip_all_braces(text);
    let base = offset_in(text, whole);
    let mut assignments = Vec::new();
    let mut position = 0;
    while position < whole.len() {
        let rest = whole.get(position..).unwrap_or_default();
        let place = TextLocation::Byte(base + position);
        let end = rest.find(['=', '{', '}', ';']);
        let name = trim(rest.get(..end.unwrap_or(rest.len())).unwrap_or_default());
        let Some(end) = end.filter(|&end| rest.as_bytes().get(end) == Some(&b'=')) else {
            return Err(TextError::new(place, format!("'{name}' is not followed by '='")));
        };
        if name.is_empty() {
            return Err(TextError::new(place, "no name before '='"));
        }
        let after = rest.get(end + 1..).unwrap_or_default();
        let start = position + end + 1 + after.len() - after.trim_start_matches(is_space).len();
        let token = Token::read(whole, start, ';')
            .map_err(|reason| TextError::new(place, format!("{name}: {reason}")))?;
        assignments.push(Assignment { name, value: token.text, offset: base + start });
        position = token.next;
    }
    Ok(assignments)
}

/// Writes assignments as an option string. A value with a `;` outside braces is enclosed in braces.
pub fn write_option_string<'a>(
    assignments: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = String::new();
    for (name, value) in assignments {
        let whole = Token::read(value, 0, ';').is_ok_and(|token| token.next >= value.len());
        text.push_str(name);
        if whole || value.is_empty() {
            text.extend(["=", value, ";"]);
        } else {
            text.extend(["={", value, "};"]);
        }
    }
    text
}

/// Splits a list such as `1:2:{a:b}` at the separators that are outside braces, and removes the
/// braces around each item. Braces around the whole list are removed first. An empty list has no
/// items.
///
/// # Errors
/// Braces that do not match, and text after a closing brace.
pub fn split_list(text: &str, separator: char) -> Result<Vec<&str>, TextError> {
    let whole = strip_outer_braces(text);
    let base = offset_in(text, whole);
    let mut items = Vec::new();
    let mut position = 0;
    while position < whole.len() {
        let rest = whole.get(position..).unwrap_or_default();
        let start = position + rest.len() - rest.trim_start_matches(is_space).len();
        let token = Token::read(whole, start, separator)
            .map_err(|reason| TextError::new(TextLocation::Byte(base + position), reason))?;
        let is_nested = token.text.starts_with('{');
        let item = token.text.strip_prefix('{').and_then(|item| item.strip_suffix('}'));
        items.push(if is_nested { trim(item.unwrap_or(token.text)) } else { token.text });
        position = token.next;
    }
    Ok(items)
}

/// Removes one pair of matching braces that encloses all of `value`.
pub fn strip_outer_braces(value: &str) -> &str {
    match closing_brace(value) {
        Some(end) if end + 1 == value.len() => value.get(1..end).unwrap_or_default(),
        _ => value,
    }
}

/// A value, and the offset of the next token. The offset counts from the start of the whole string.
/// The next token begins after the delimiter that follows the value.
struct Token<'a> {
    text: &'a str,
    next: usize,
}

impl<'a> Token<'a> {
    /// Reads the value that begins at offset `start` of `whole`. The character there is not white
    /// space.
    fn read(whole: &'a str, start: usize, delimiter: char) -> Result<Self, &'static str> {
        let rest = whole.get(start..).unwrap_or_default();
        if !rest.starts_with('{') {
            let length = rest.find(delimiter).unwrap_or(rest.len());
            let text = trim(rest.get(..length).unwrap_or_default());
            return Ok(Self { text, next: start + length + delimiter.len_utf8() });
        }
        let Some(close) = closing_brace(rest) else { return Err("a brace that is not closed") };
        let (text, after) = rest.split_at(close + 1);
        let spaces = after.len() - after.trim_start_matches(is_space).len();
        match after.get(spaces..).and_then(|after| after.chars().next()) {
            None => Ok(Self { text, next: whole.len() }),
            Some(found) if found == delimiter => {
                Ok(Self { text, next: start + close + 1 + spaces + delimiter.len_utf8() })
            }
            Some(_) => Err("text after a closing brace"),
        }
    }
}

/// Returns the offset of the brace that matches the one at the start of `text`.
fn closing_brace(text: &str) -> Option<usize> {
    if !text.starts_with('{') {
        return None;
    }
    let mut depth = 0u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// While the text begins with `{` and ends with `}`, removes these two braces. As in RocksDB, it
/// does not check that the two match each other.
fn strip_all_braces(text: &str) -> &str {
    let mut text = trim(text);
    while text.len() > 2
        && let Some(inner) = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'))
    {
        text = trim(inner);
    }
    text
}

/// Returns the offset of `part` in `whole`, in bytes. `part` is a subslice of `whole`.
fn offset_in(whole: &str, part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(whole.as_ptr().addr())
}
