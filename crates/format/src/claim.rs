//! The claim: a file that names the database to which the files of a directory belong.
//!
//! A database's home is the directory with its CURRENT file. Tables, blob files and logs may be
//! kept in other directories, which may be below the home. The names of these files are numbers,
//! which do not identify the database. Two databases may use the same directory: a copied database
//! still refers to the directories of the original. So before a database first writes to another
//! directory than its home, it creates a claim there, [`CLAIM`](crate::file_name::FileKind::Claim):
//! a text file with one field per line.
//!
//! ```text
//! TAILWATER-CLAIM 1
//! database 1a79a4d6-0de6-718e-8e5b-326e338ae533
//! device 2049
//! inode 131074
//! home /data/db
//! inside 2049 131099 logs
//! keep 000017.sst
//! end
//! ```
//!
//! `device` and `inode` are those of the home; `home` is its absolute path. `database` has no value
//! if the database has no durable id. `inside` is present only if the claimed directory is below
//! the home. It contains the directory's own device and inode, and its path relative to the home.
//! Each `keep` names a file that was there before the claim and did not belong to the database: it
//! is never removed. Values are escaped as in a Rust string literal, so that none contains a line
//! break.

use crate::{Error, Result};

/// First line of a claim file, which names the database that owns the files of a directory.
const HEADING: &str = "TAILWATER-CLAIM 1";
/// Last line of a claim; a file without it is truncated.
const END: &str = "end";

/// The owner of the files of a directory. Strings are stored with the escapes of the claim file,
/// because they are only compared and shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// Id of the database; empty if the database has no durable id.
    pub database_id: String,
    /// Device of the database's home.
    pub home_device: u64,
    /// Inode of the database's home, which is the directory with its CURRENT file.
    pub home_inode: u64,
    /// Absolute path of the database's home when the database claimed the directory.
    pub home_path: String,
    /// The claimed directory, if it was inside the database's home when the claim was made.
    pub inside: Option<Inside>,
    /// Names of the files that are never removed, because they were there before the claim and did
    /// not belong to the database.
    pub kept: Vec<String>,
}

/// A claimed directory inside the home of the claiming database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    /// Device of the directory.
    pub device: u64,
    /// Inode of the directory.
    pub inode: u64,
    /// Path of the directory relative to the database's home, escaped.
    pub path: String,
}

impl Inside {
    fn parse(value: &str) -> Option<Self> {
        let (device, rest) = value.split_once(' ')?;
        let (inode, path) = rest.split_once(' ')?;
        let (device, inode) = (device.parse().ok()?, inode.parse().ok()?);
        Some(Self { device, inode, path: path.to_owned() })
    }
}

impl Claim {
    /// Creates the claim of the database with this home and id. `database_id` is empty if the
    /// database has no durable id.
    pub fn new(database_id: &str, home_device: u64, home_inode: u64, home_path: &str) -> Self {
        Self {
            database_id: database_id.escape_debug().to_string(),
            home_device,
            home_inode,
            home_path: home_path.escape_debug().to_string(),
            inside: None,
            kept: Vec::new(),
        }
    }

    /// Returns this claim with the claimed directory set, which is inside the database's home.
    /// `path` is relative to the home. `device` and `inode` are those of the directory.
    #[must_use]
    pub fn inside(mut self, path: &str, device: u64, inode: u64) -> Self {
        self.inside = Some(Inside { device, inode, path: path.escape_debug().to_string() });
        self
    }

    /// Returns the text of the claim file.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{HEADING}\ndatabase {}\ndevice {}\ninode {}\nhome {}\n",
            self.database_id, self.home_device, self.home_inode, self.home_path,
        );
        if let Some(Inside { device, inode, path }) = &self.inside {
            text.push_str(&format!("inside {device} {inode} {path}\n"));
        }
        for name in &self.kept {
            text.push_str(&format!("keep {name}\n"));
        }
        text.push_str(END);
        text.push('\n');
        text
    }

    /// Reads a claim.
    ///
    /// # Errors
    /// Corruption, for malformed or truncated text; unsupported, for a later version.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let wrong = |at: usize, expected: &'static str, found: &str| {
            Error::corruption("claim", at, expected, format!("'{}'", found.escape_debug()))
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|error| wrong(error.valid_up_to(), "UTF-8", "other bytes"))?;
        let mut claim = Self::default();
        let mut at = 0;
        let mut is_whole = false;
        let mut fields = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let content = line.strip_suffix('\n').ok_or_else(|| wrong(at, "a whole line", line))?;
            let (name, value) = content.split_once(' ').unwrap_or((content, ""));
            let number = || value.parse().map_err(|_| wrong(at, "a number", value));
            match (index, name) {
                (0, "TAILWATER-CLAIM") if content != HEADING => {
                    return Err(Error::unsupported(format!("a claim of version '{value}'")));
                }
                (0, "TAILWATER-CLAIM") => {}
                (0, _) => return Err(wrong(at, HEADING, content)),
                (_, _) if is_whole => return Err(wrong(at, "the end", content)),
                (_, "database") => value.clone_into(&mut claim.database_id),
                (_, "device") => claim.home_device = number()?,
                (_, "inode") => claim.home_inode = number()?,
                (_, "home") => value.clone_into(&mut claim.home_path),
                (_, "inside") => {
                    let inside = Inside::parse(value);
                    let what = "device, inode and path";
                    claim.inside = Some(inside.ok_or_else(|| wrong(at, what, value))?);
                }
                (_, "keep") => claim.kept.push(value.to_owned()),
                (_, END) => is_whole = true,
                (_, _) => return Err(wrong(at, "a field of a claim", content)),
            }
            fields += usize::from(matches!(name, "database" | "device" | "inode" | "home"));
            at += line.len();
        }
        if !is_whole || fields != 4 {
            return Err(wrong(at, "all fields and 'end'", "the end of the file"));
        }
        Ok(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Claim {
        Claim {
            database_id: "1a79a4d6-0de6-718e-8e5b-326e338ae533".to_owned(),
            home_device: 2049,
            home_inode: 131_074,
            home_path: "/data/db".to_owned(),
            inside: Some(Inside { device: 2049, inode: 131_099, path: "logs".to_owned() }),
            kept: vec!["000017.sst".to_owned()],
        }
    }

    const TEXT: &str = "TAILWATER-CLAIM 1\ndatabase 1a79a4d6-0de6-718e-8e5b-326e338ae533\ndevice \
                        2049\ninode 131074\nhome /data/db\ninside 2049 131099 logs\nkeep 000017.sst\nend\n";

    #[test]
    fn a_claim_round_trips_as_text() {
        assert_eq!(claim().to_text(), TEXT);
        assert_eq!(Claim::parse(TEXT.as_bytes()), Ok(claim()));
        let unnamed = Claim { database_id: String::new(), kept: Vec::new(), ..claim() };
        assert_eq!(Claim::parse(unnamed.to_text().as_bytes()), Ok(unnamed));
    }

    #[test]
    fn a_path_with_a_line_break_stays_on_its_line() {
        let odd = Claim::new("id", 1, 2, "/a\nend\n/b");
        assert_eq!(odd.home_path, "/a\\nend\\n/b");
        assert_eq!(Claim::parse(odd.to_text().as_bytes()), Ok(odd));
    }

    #[test]
    fn a_claim_that_is_cut_short_or_damaged_is_an_error() {
        for length in 0..TEXT.len() {
            assert!(Claim::parse(&TEXT.as_bytes()[..length]).is_err(), "{length} bytes");
        }
        let damaged = [
            TEXT.replace("device 2049", "device x"),
            TEXT.replace("inside 2049 ", "inside "),
            TEXT.replace("home", "hole"),
            TEXT.replace("end\n", "end\nend\n"),
            TEXT.replace("device 2049\n", ""),
            TEXT.replace("CLAIM 1", "CLAIM 2"),
            format!("{TEXT}x"),
        ];
        for text in damaged {
            assert!(Claim::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
