//! The arguments that most commands share: engines, their options, and the directory of the
//! databases.

use std::path::PathBuf;

use clap::Args;
use tailwater_latency::files::Temporary;

use crate::store::{Engine, Failure};

/// Default option string for all engines that accept RocksDB's options.
const OPTIONS: &str = "\
    create_if_missing=true;max_background_jobs=2;max_open_files=-1;\
    write_buffer_size=67108864;compression=kLZ4Compression;\
    block_based_table_factory={block_cache=1073741824;filter_policy=bloomfilter:10:false}";

/// The arguments that most commands share.
#[derive(Debug, Clone, Args)]
pub(crate) struct Subjects {
    /// Option string of the databases.
    #[arg(long, default_value = OPTIONS)]
    options: String,
    /// Additional option string. Its options override those in --options.
    #[arg(long, default_value = "")]
    more_options: String,
    /// Comma-separated list of engines; by default all that support the command. The first is
    /// compared with the others.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Parent directory of the databases, which are removed afterwards; the system's temporary
    /// directory by default.
    #[arg(long)]
    directory: Option<PathBuf>,
}

impl Subjects {
    /// Returns the requested engines from `known`, in the requested order.
    ///
    /// # Errors
    /// An error if a name matches no engine.
    pub(crate) fn engines<'a>(&self, known: &'a [Engine]) -> Result<Vec<&'a Engine>, Failure> {
        if self.engines.is_empty() {
            return Ok(known.iter().collect());
        }
        let names = known.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ");
        let find = |name: &String| known.iter().find(|engine| engine.name == *name);
        let unknown = |name| format!("--engines: no engine '{name}'; there are: {names}").into();
        self.engines.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
    }

    /// Returns the requested engines, or the engines with the given names if none were requested.
    pub(crate) fn engines_or<'a>(
        &self,
        known: &'a [Engine],
        names: &[&str],
    ) -> Result<Vec<&'a Engine>, Failure> {
        let mut engines = self.engines(known)?;
        engines.retain(|engine| !self.engines.is_empty() || names.contains(&engine.name));
        Ok(engines)
    }

    /// Returns whether the engine was requested, explicitly or because no engine was named.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|engine| engine == name)
    }

    /// Returns the option string for a command that has its own options, `own`, instead of
    /// `--options`. The result is `own`, followed by `--more-options`, which override `own`.
    pub(crate) fn options_over(&self, own: &str) -> String {
        format!("{own};{}", self.more_options)
    }

    /// Returns the option string of the databases: `--options`, followed by the options that
    /// override it (`--more-options`).
    pub(crate) fn options(&self) -> String {
        format!("{};{}", self.options, self.more_options)
    }

    /// Creates a directory for a database. It is removed when the returned value is dropped or the
    /// program is interrupted.
    pub(crate) fn new_directory(&self) -> Result<Temporary, Failure> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("tailwater-bench-");
        let directory = match &self.directory {
            Some(parent) => {
                builder.tempdir_in(parent).map_err(|error| format!("--directory: {error}"))?
            }
            None => builder.tempdir()?,
        };
        Temporary::new(directory)
    }

    /// Returns the parent directory of the databases, if one was given.
    pub(crate) fn parent_directory(&self) -> Option<&PathBuf> {
        self.directory.as_ref()
    }
}
