//! Figures that the kernel reports about this process and a directory.

use std::path::Path;

use crate::store::Failure;

/// Returns the number of bytes that this process has caused to be written to storage since it
/// began.
///
/// # Errors
/// An error if the kernel does not report the figure.
pub(crate) fn written_bytes() -> Result<u64, Failure> {
    field("/proc/self/io", "write_bytes:")
}

/// Returns the peak resident memory of this process since it began, in bytes.
///
/// # Errors
/// An error if the kernel does not report the figure.
pub(crate) fn peak_memory_bytes() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "VmHWM:")? << 10)
}

/// Returns the resident anonymous memory of this process, in bytes. It does not include mapped
/// files, such as the program's code.
///
/// # Errors
/// An error if the kernel does not report the figure.
pub(crate) fn anonymous_bytes() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "RssAnon:")? << 10)
}

#[expect(
    clippy::disallowed_methods,
    reason = "reads statistics of the kernel, not a database's files"
)]
fn field(file: &str, name: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{file} has no {name}"))?.parse()?)
}

/// Returns the total length of all files in a directory and its subdirectories, in bytes. Files
/// that disappear during the listing are ignored.
///
/// # Errors
/// Errors from listing the directory.
#[expect(clippy::disallowed_methods, reason = "measures the files of any engine")]
pub(crate) fn directory_bytes(directory: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += directory_bytes(&entry.path())?,
            Ok(metadata) => bytes += metadata.len(),
            Err(_) => {}
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells() {
        assert!(peak_memory_bytes().unwrap() > 1 << 20);
        assert!(written_bytes().is_ok());
        assert!(field("/proc/self/status", "NoSuchField:").is_err());
    }
}
