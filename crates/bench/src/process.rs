//! Figures that the kernel reports about this process and a directory.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tailwater_io::kernel::System;
use tailwater_latency::files::all_below;

use crate::store::Failure;

/// Returns the number of bytes that this process has caused to be written to storage since it
/// began.
pub(crate) fn written_bytes() -> Result<u64, Failure> {
    field("/proc/self/io", "write_bytes:")
}

/// Returns the peak resident memory of this process since it began, in bytes.
pub(crate) fn peak_memory_bytes() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "VmHWM:")? << 10)
}

/// Returns the resident anonymous memory of this process, in bytes. It does not include mapped
/// files, such as the program's code.
pub(crate) fn anonymous_bytes() -> Result<u64, Failure> {
    Ok(field("/proc/self/status", "RssAnon:")? << 10)
}

/// The resident memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Resident {
    /// All resident memory, with mapped files such as the program's code.
    pub(crate) total: u64,
    /// The part that is no mapped file.
    pub(crate) anonymous: u64,
}

impl Resident {
    /// Returns that of this process.
    pub(crate) fn now() -> Result<Self, Failure> {
        let total = field("/proc/self/status", "VmRSS:")? << 10;
        Ok(Self { total, anonymous: anonymous_bytes()? })
    }
}

fn field(file: &str, name: &str) -> Result<u64, Failure> {
    let text = System::default().read(file).ok_or_else(|| format!("{file} cannot be read"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    Ok(number.ok_or_else(|| format!("{file} has no {name}"))?.parse()?)
}

/// Returns the total length of all files in a directory and its subdirectories, in bytes. Files
/// that disappear during the listing are ignored.
pub(crate) fn directory_bytes(directory: &Path) -> Result<u64, Failure> {
    let files = all_below(directory)?;
    Ok(files.into_iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum())
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
