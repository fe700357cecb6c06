//! The options in effect: those of the OPTIONS file, overridden by those of `--options`.

use std::path::{Path, PathBuf};

use tailwater::OpenOptions;
use tailwater_format::file_name::FileKind;

use crate::arguments::Common;
use crate::files::{directory_of, numbered_files, storage};
use crate::outcome::{Failure, Result};

/// The options in effect, and the same options without the overrides of the command line.
pub(crate) struct Settings {
    /// The OPTIONS file, if there is one.
    pub(crate) path: Option<PathBuf>,
    /// The options that the OPTIONS file states, and defaults for the options that it does not
    /// state.
    pub(crate) filed: OpenOptions,
    /// The options in effect: `filed`, overridden by the options of the command line.
    pub(crate) effective: OpenOptions,
}

impl Settings {
    /// Reads the newest OPTIONS file of a directory and applies the overrides of the command line.
    /// Column-family options in `--options` apply to every column family.
    ///
    /// # Errors
    /// Usage, for an invalid option string, unknown names and invalid values; corruption, for an
    /// unreadable OPTIONS file.
    pub(crate) fn load(directory: &Path, given: &Common) -> Result<Self> {
        let mut files = numbered_files(directory, |kind| match kind {
            FileKind::Options(number) => Some(number),
            _ => None,
        })?;
        let path = files.pop().map(|(_, path)| path);
        let filed = OpenOptions::load_from(storage(), directory)?;
        Self { path, effective: filed.clone(), filed }.with(given)
    }

    /// Applies the overrides to the defaults, without an OPTIONS file.
    pub(crate) fn defaults(given: &Common) -> Result<Self> {
        let filed = OpenOptions::with_storage(storage());
        Self { path: None, effective: filed.clone(), filed }.with(given)
    }

    /// Returns the path of the OPTIONS file, if there is one, as text.
    pub(crate) fn file(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.display().to_string())
    }

    fn with(mut self, given: &Common) -> Result<Self> {
        self.effective.set_adopt_directories(given.adopt_directories);
        if let Some(text) = &given.options {
            self.effective
                .set_from_string(text)
                .map_err(|error| Failure::Usage(format!("--options: {}", error.message())))?;
        }
        Ok(self)
    }
}

/// Returns an error for an invalid `--options`, in a verb that makes no other use of options.
/// `path` is the directory of a database or a file in it.
pub(crate) fn check_options(path: &Path, given: &Common) -> Result<()> {
    if given.options.is_some() {
        Settings::load(directory_of(path)?, given)?;
    }
    Ok(())
}
