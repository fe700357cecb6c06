//! The arguments of `tailwater serve`.

use std::path::PathBuf;

use clap::Args;

/// The end of the help of `serve`.
pub(crate) const SERVE_NOTES: &str = "\
Values come from the file, IGGY_* variables and flags; later ones override earlier ones.
docs/server.md describes every key.

Examples:
  tailwater serve --with-default-root-credentials
      a server on 127.0.0.1:8090 for the user iggy with the password iggy, in local_data
  IGGY_ROOT_USERNAME=admin IGGY_ROOT_PASSWORD=secret tailwater serve --config server.toml
      a server with a configuration file in Iggy's format, and a root user with these credentials
  tailwater serve --set topic_defaults.durability=disk --set system.segment.append_io_mode=buffered

SIGTERM, SIGINT and SIGHUP persist everything and end the server; a second signal ends it
immediately.

Exit codes:
  0  the server was shut down, and everything is persisted
  1  the server could not start, or could not persist everything
  2  the command line or the configuration is invalid";

/// The arguments of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// Configuration file in the format of Iggy's server [env: IGGY_CONFIG_PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set a key of the configuration, for example tcp.address=0.0.0.0:8090
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, String)>,
    /// Directory of the data (system.path)
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Address for clients (tcp.address)
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<String>,
    /// Give the root user of a new data directory the name iggy and the password iggy
    #[arg(long)]
    pub(crate) with_default_root_credentials: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| "expected KEY=VALUE".to_owned())?;
    Ok((key.trim().to_owned(), value.to_owned()))
}
