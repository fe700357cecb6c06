//! What the system tells of this process and of a directory.

use std::path::Path;

use crate::store::Failure;

/// The bytes that this process has sent towards devices since it began.
///
/// # Errors
/// A system that does not tell.
pub(crate) fn written_bytes() -> Result<u64, Failure> {
    field("/proc/self/io", "write_bytes:")
}

/// The bytes of memory that this process has at most had at a time since it began.
///
/// # Errors
/// A system that does not tell.
pub(crate) fn peak_memory_bytes() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "VmHWM:")? << 10)
}

/// The bytes of memory that this process has now, without code and what files it maps.
///
/// # Errors
/// A system that does not tell.
pub(crate) fn anonymous_bytes() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "RssAnon:")? << 10)
}

#[expect(clippy::disallowed_methods, reason = "what the kernel tells is no database's file")]
fn field(file: &str, name: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{file} has no {name}"))?.parse()?)
}

/// How long all files in a directory are together, in bytes. One that goes meanwhile is left out.
///
/// # Errors
/// Those of listing it.
#[expect(clippy::disallowed_methods, reason = "the files of other engines are counted, too")]
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
