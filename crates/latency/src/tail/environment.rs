//! The environment of an experiment, as described in its report.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tailwater_io::posix::PosixStorage;
use tailwater_io::probe::DeviceProbe;

use crate::experiment::environment;
use crate::failure::Failure;

/// A description of the machine, and of the memory limit.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Environment {
    /// Tailwater's version.
    version: &'static str,
    /// Sentences that describe the memory limit and what it does not cover.
    memory_limit: String,
    /// Whether a memory limit was in force.
    pub(super) is_limited: bool,
    /// How streams that read ahead make their requests: `io_uring` or `threads`.
    reads_ahead_by: &'static str,
    /// The fields of [`environment`], by name.
    #[serde(flatten)]
    environment: BTreeMap<&'static str, String>,
}

impl Environment {
    /// Describes this machine and the filesystem of `directory`.
    pub(super) fn of(directory: &Path, (memory_limit, is_limited): (String, bool)) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            memory_limit,
            is_limited,
            reads_ahead_by: if PosixStorage::new().uses_io_uring() {
                "io_uring"
            } else {
                "threads"
            },
            environment: environment(directory).into_iter().collect(),
        }
    }

    /// Returns the name of the filesystem, for a heading.
    pub(super) fn filesystem(&self) -> &str {
        self.environment.get("filesystem").map_or("unknown", String::as_str)
    }
}

/// Measures the device of `directory` itself, without an engine; `None` if its filesystem does not
/// support direct I/O.
pub(super) fn probe_device(
    probe: DeviceProbe,
    directory: &Path,
) -> Result<Option<BTreeMap<&'static str, f64>>, Failure> {
    match probe.run(&PosixStorage::new(), directory) {
        Ok(figures) => Ok(Some(figures.named().into_iter().collect())),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
