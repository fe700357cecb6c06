//! The mount table: `/proc/PID/mountinfo`, as described by proc(5).

use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the filesystem's device; the major number is 0 if there is no
    /// single device.
    pub number: (u32, u32),
    /// Which part of the filesystem is mounted: `/`, or for a bind mount a path in it.
    pub part: PathBuf,
    /// The mount point.
    pub target: PathBuf,
    /// The options of this mount.
    pub options: String,
    /// The kind of filesystem: `ext4`, `cgroup2`.
    pub kind: String,
    /// The mounted source: usually a device.
    pub source: PathBuf,
    /// The options of the filesystem.
    pub filesystem_options: String,
}

/// Returns the mounts in the text of a `mountinfo`, in their order.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // A lone hyphen ends a list of optional fields.
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let number = (major.parse().ok()?, minor.parse().ok()?);
    let (part, target, options) = (left.next()?, left.next()?, left.next()?);
    let mut right = right.split(' ');
    Some(Mount {
        number,
        part: unescaped(part),
        target: unescaped(target),
        options: options.to_owned(),
        kind: right.next()?.to_owned(),
        source: unescaped(right.next()?),
        filesystem_options: right.next().unwrap_or_default().to_owned(),
    })
}

/// Decodes space, tab, newline and backslash, which are written as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut plain = text.to_owned();
    for (escape, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        plain = plain.replace(escape, character);
    }
    PathBuf::from(plain)
}

/// Returns the mount that contains a path without links: the one with the longest mount point or,
/// if several have the same one, the last, which hides the others.
pub fn of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let holding = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    holding.max_by_key(|mount| mount.target.components().count())
}

/// Returns the value of an option: `/a/b` for `upperdir` in `rw,upperdir=/a/b`.
pub(super) fn option<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}
