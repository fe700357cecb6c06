//! Debian's package index: stanzas of fields, separated by empty lines.
//!
//! ```text
//! Package: 0ad
//! Version: 0.0.26-3
//! Depends: 0ad-data (>= 0.0.26), libc6 (>= 2.34), default-mta | mail-transport-agent
//! Tag: game::strategy, interface::graphical,
//!  uitoolkit::sdl
//! ```
//!
//! A field begins with its name, in letters of either case, and a colon; a line that begins with a
//! space or tab continues the previous field. `Depends` has comma-separated entries, each with
//! alternatives separated by `|`; an alternative begins with the name of a package. Source: Debian
//! Policy, 5.1 (control files) and 7.1 (relationship fields).

use std::io::BufRead;

use super::input::Lines;
use crate::outcome::Result;
use crate::text::excerpt;

/// A stanza of the package index. Its text is exactly as in the index file.
#[derive(Debug, Default)]
pub(super) struct Stanza {
    /// The stanza's lines, each with its line end.
    text: Vec<u8>,
    /// The number of the stanza's first line, counted from 1.
    line: u64,
    /// Buffer for the line read last.
    last: Vec<u8>,
}

/// The package that a stanza describes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package<'a> {
    pub(super) name: &'a [u8],
    pub(super) version: &'a [u8],
    depends: &'a [u8],
}

/// The reason why a stanza does not describe a package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Number of the stanza's lines that precede the malformed line.
    pub(super) line: u64,
    pub(super) reason: String,
}

/// A field of a stanza.
struct Field<'a> {
    /// Number of the stanza's lines that precede the field.
    line: u64,
    name: &'a [u8],
    /// The text after the colon, including continuation lines, without surrounding spaces.
    value: &'a [u8],
}

/// The fields of a stanza in order.
struct Fields<'a> {
    rest: &'a [u8],
    line: u64,
}

impl Stanza {
    /// Replaces this stanza by the next, and returns whether there was one.
    ///
    /// # Errors
    /// Errors from reading.
    pub(super) fn read(&mut self, lines: &mut Lines<impl BufRead>) -> Result<bool> {
        self.text.clear();
        while lines.read(&mut self.last)? {
            if !self.last.is_empty() {
                if self.text.is_empty() {
                    self.line = lines.number();
                }
                self.text.extend_from_slice(&self.last);
                self.text.push(b'\n');
            } else if !self.text.is_empty() {
                break;
            }
        }
        Ok(!self.text.is_empty())
    }

    /// Returns all lines of the stanza, each with its line end.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the number of the stanza's first line, counted from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Parses the package that the stanza describes.
    ///
    /// # Errors
    /// A line that is not a field; a name or version that is missing, empty or repeated.
    pub(super) fn package(&self) -> std::result::Result<Package<'_>, Problem> {
        let (mut name, mut version, mut depends) = (None, None, None);
        for field in (Fields { rest: &self.text, line: 0 }) {
            let Field { line, name: field, value } = field?;
            let wanted = match field {
                _ if field.eq_ignore_ascii_case(b"Package") => &mut name,
                _ if field.eq_ignore_ascii_case(b"Version") => &mut version,
                _ if field.eq_ignore_ascii_case(b"Depends") => &mut depends,
                _ => continue,
            };
            if wanted.replace(value).is_some() {
                let reason = format!("a second {} in one stanza", excerpt(field));
                return Err(Problem { line, reason });
            }
        }
        Ok(Package {
            name: needed(name, "Package")?,
            version: needed(version, "Version")?,
            depends: depends.unwrap_or_default(),
        })
    }
}

fn needed<'a>(value: Option<&'a [u8]>, name: &str) -> std::result::Result<&'a [u8], Problem> {
    value.filter(|value| !value.is_empty()).ok_or_else(|| Problem {
        line: 0,
        reason: format!("the stanza that begins here has no {name}"),
    })
}

impl<'a> Iterator for Fields<'a> {
    type Item = std::result::Result<Field<'a>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        let mut length = 0;
        loop {
            length += line_length(&self.rest[length..]);
            self.line += 1;
            if !matches!(self.rest.get(length), Some(b' ' | b'\t')) {
                break;
            }
        }
        let (field, rest) = self.rest.split_at(length);
        self.rest = rest;
        let is_end_of_name = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
        let end = field.iter().position(is_end_of_name).unwrap_or(field.len());
        let (name, behind) = field.split_at(end);
        match behind.strip_prefix(b":") {
            Some(value) if !name.is_empty() => {
                Some(Ok(Field { line, name, value: value.trim_ascii() }))
            }
            _ => {
                let first = field[..line_length(field)].trim_ascii_end();
                let reason = format!("a name and a colon are expected, not {}", excerpt(first));
                Some(Err(Problem { line, reason }))
            }
        }
    }
}

/// Returns the length of the first line of a text, including its line end.
fn line_length(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| end + 1)
}

impl<'a> Package<'a> {
    /// Returns the key of the package's stanza: the name and the version.
    pub(super) fn key(&self) -> Vec<u8> {
        [self.name, b"/", self.version].concat()
    }

    /// Returns the names of the packages on which this package depends: the first alternative of
    /// each entry of `Depends`.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &'a [u8]> {
        let names = self.depends.split(|&byte| byte == b',').map(|entry| {
            let first = entry.split(|&byte| byte == b'|').next().unwrap_or_default();
            let is_end = |byte: &u8| *byte == b'(' || byte.is_ascii_whitespace();
            first.trim_ascii_start().split(is_end).next().unwrap_or_default()
        });
        names.filter(|name| !name.is_empty())
    }

    /// Returns the key that records one dependency of the package: the name of the dependency and
    /// the name of the package.
    pub(super) fn dependency_key(&self, dependency: &[u8]) -> Vec<u8> {
        [dependency, b"<-", self.name].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stanzas(text: &str) -> Vec<Stanza> {
        let mut lines = Lines::new(text.as_bytes(), "text");
        let mut stanzas = Vec::new();
        loop {
            let mut stanza = Stanza::default();
            if !stanza.read(&mut lines).unwrap() {
                return stanzas;
            }
            stanzas.push(stanza);
        }
    }

    fn problem(text: &str) -> Problem {
        stanzas(text)[0].package().unwrap_err()
    }

    fn dependencies(depends: &str) -> Vec<String> {
        let stanza = &stanzas(&format!("Package: p\nVersion: 1\nDepends:{depends}\n"))[0];
        let package = stanza.package().unwrap();
        package.dependencies().map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
    }

    #[test]
    fn stanzas_are_separated_by_empty_lines() {
        let stanzas = stanzas("\n\nPackage: a\nVersion: 1\n\n\nPackage: b\n x\nVersion: 2\n");
        let seen: Vec<_> = stanzas.iter().map(|stanza| (stanza.line(), stanza.text())).collect();
        let expected: [(u64, &[u8]); 2] =
            [(3, b"Package: a\nVersion: 1\n"), (7, b"Package: b\n x\nVersion: 2\n")];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_package_has_a_name_and_a_version() {
        let text = "package:  a \nX: y\nVERSION:1:2-3\nDescription: lines\n that: go\n\ton\n";
        let stanzas = stanzas(text);
        let package = stanzas[0].package().unwrap();
        assert_eq!(package, Package { name: b"a", version: b"1:2-3", depends: b"" });
        assert_eq!(package.key(), b"a/1:2-3");
        assert_eq!(package.dependency_key(b"b"), b"b<-a");
        assert_eq!(package.dependencies().count(), 0);
    }

    #[test]
    fn a_dependency_is_the_name_of_the_first_alternative() {
        assert_eq!(
            dependencies(" libc6 (>= 2.34), default-mta | mail-transport-agent,zlib1g(>=1),x|y"),
            ["libc6", "default-mta", "zlib1g", "x"]
        );
        assert_eq!(dependencies(" nodejs:any, a (<< 2), a (>= 1)"), ["nodejs:any", "a", "a"]);
        assert_eq!(dependencies(" a,\n b (>= 1)\n  | c,\n d"), ["a", "b", "d"]);
        assert_eq!(dependencies(" , a, ,"), ["a"]);
        assert_eq!(dependencies(""), Vec::<String>::new());
    }

    #[test]
    fn only_the_depends_field_lists_dependencies() {
        let text = "Package: a\nVersion: 1\nPre-Depends: b\nBuild-Depends: c\nRecommends: d\n";
        assert_eq!(stanzas(text)[0].package().unwrap().dependencies().count(), 0);
    }

    #[test]
    fn invalid_packages_are_reported_with_their_line() {
        let at = |text: &str| (problem(text).line, problem(text).reason);
        let missing = |name: &str| (0, format!("the stanza that begins here has no {name}"));
        assert_eq!(at("Version: 1\n"), missing("Package"));
        assert_eq!(at("Package: a\nSource: b\n"), missing("Version"));
        assert_eq!(at("Package: a\nVersion:\n"), missing("Version"));
        let twice = "Package: a\nVersion: 1\nTag: x,\n y\nPackage: b\nVersion: 2\n";
        assert_eq!(at(twice), (4, "a second 'Package' in one stanza".to_owned()));
        for line in ["no field", "no field: here", ": no name", "nothing"] {
            let text = format!("Package: a\nVersion: 1\n{line}\nTag: x\n");
            let reason = format!("a name and a colon are expected, not '{line}'");
            assert_eq!(at(&text), (2, reason));
        }
        assert_eq!(problem(" goes on\nPackage: a\n").line, 0);
    }
}
