//! The mount table: `/proc/PID/mountinfo`, as described by proc(5).

use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor number of the filesystem's device. The major number is 0 if the filesystem
    /// has no device or several.
    pub number: (u32, u32),
    /// The mounted directory, as a path inside the filesystem: `/`, or the path of another
    /// directory for a bind mount.
    pub part: PathBuf,
    /// The mount point.
    pub target: PathBuf,
    /// The options of this mount.
    pub options: String,
    /// The filesystem's type: `ext4`, `cgroup2`.
    pub kind: String,
    /// The source of the mount, usually the path of a device.
    pub source: PathBuf,
    /// The options of the filesystem, which all its mounts share.
    pub filesystem_options: String,
}

/// Returns the mounts in the text of a `mountinfo` file, in the order of the file.
pub fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    // The fields before the hyphen include optional ones, so their number varies.
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

/// Decodes the escapes of the kernel, which writes spaces, tabs, newlines and backslashes as a
/// backslash and three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut plain = text.to_owned();
    for (escape, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        plain = plain.replace(escape, character);
    }
    PathBuf::from(plain)
}

/// Returns the mount that contains `path`, which has no symbolic links. It is the mount with the
/// longest mount point. If several mounts have that mount point, it is the last of them, which
/// hides the others.
pub fn of_path<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let holding = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    holding.max_by_key(|mount| mount.target.components().count())
}

/// Returns the value of the option `name` in a list of mount options: `/a/b` for `upperdir` in
/// `rw,upperdir=/a/b`.
pub(super) fn option<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}
