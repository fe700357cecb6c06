//! `tailwater serve`: starts the server, and stops it on a signal.
//!
//! The first SIGTERM, SIGINT or SIGHUP shuts down: connections end, and everything is persisted.
//! The second ends the process immediately, without waiting for requests in progress; the next
//! start recovers acknowledged messages, as after any kill.

mod logging;

use std::io::{Write as _, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailwater_server::{Config, Flags, Server, Shutdown};
use tokio::sync::Notify;
use tracing::{error, info, warn};

use crate::arguments::ServeArguments;
use crate::outcome::{Failure, Result};
use crate::output::complain;
use logging::Logging;

/// Exit code of a server that a second signal ended.
const CUT_SHORT: i32 = 1;

/// Runs the server until a signal arrives.
pub(crate) fn run(arguments: &ServeArguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            failure.exit_code()
        }
    }
}

fn serve(arguments: &ServeArguments) -> Result<()> {
    let flags = Flags {
        config: arguments.config.clone(),
        path: arguments.path.clone(),
        address: arguments.address.clone(),
        settings: arguments.set.clone(),
        has_default_root_credentials: arguments.with_default_root_credentials,
    };
    let environment = std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
        .collect();
    let (config, warnings) =
        Config::load(&flags, &environment).map_err(|error| Failure::Usage(error.to_string()))?;
    let filter = logging::filter(&config)?;
    let stop = listen_to_signals()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("serve")
        .build()
        .map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))?;
    // Log files may be in the server's directory. Therefore logging starts only after
    // `Server::start` has checked that the directory does not belong to another program. Lines
    // logged before are lost.
    runtime.block_on(async {
        let logs = config.clone();
        let server =
            Server::start(config).await.map_err(|error| Failure::Refused(error.to_string()))?;
        if let Some(password) = server.root_password() {
            show_password(password, &logs)?;
        }
        let logging = Logging::start(&logs, filter)?;
        for warning in warnings {
            warn!("{warning}");
        }
        started(&server, &logs);
        stop.notified().await;
        let shutdown = server.shutdown().await;
        let outcome = stopped(shutdown);
        logging.finish();
        outcome
    })
}

/// Prints the generated password of a new directory. It is stored nowhere else, not even in log
/// files.
fn show_password(password: &str, config: &Config) -> Result<()> {
    let shown = writeln!(stderr().lock(), "The new user iggy has the password {password}");
    shown.map_err(|error| {
        let directory = config.path.display();
        Failure::Refused(format!(
            "the password of the new user iggy cannot be shown, so it is lost: {error}. Remove \
             {directory}, which has no messages yet, and start again"
        ))
    })
}

/// Installs a signal handler. The first signal notifies the returned [`Notify`]; the second ends
/// the process.
fn listen_to_signals() -> Result<Arc<Notify>> {
    let stop = Arc::new(Notify::new());
    let notify = Arc::clone(&stop);
    let signals = AtomicUsize::new(0);
    ctrlc::set_handler(move || {
        if signals.fetch_add(1, Ordering::Relaxed) == 0 {
            info!("shutting down; another signal ends the server immediately");
            notify.notify_one();
        } else {
            // Nothing is logged here, because standard error may be blocked.
            std::process::exit(CUT_SHORT);
        }
    })
    .map_err(|error| Failure::Refused(format!("cannot install the signal handlers: {error}")))?;
    Ok(stop)
}

/// Logs the server's addresses and settings.
fn started(server: &Server, config: &Config) {
    let descriptors = server.descriptors();
    let connections_max = config.limits.connections_max;
    if config.tcp.is_some() && descriptors.connections < connections_max {
        let (connections, limit) = (descriptors.connections, descriptors.limit);
        warn!(
            "at most {connections} connections are accepted, although limits.connections_max is \
             {connections_max}: this process may have at most {limit} open files (RLIMIT_NOFILE, \
             `ulimit -Hn`)"
        );
    }
    let report = server.open_report();
    for warning in &report.warnings {
        warn!("{warning}");
    }
    for (partition, recovered) in &report.partitions {
        if let Some(error) = &recovered.fenced {
            error!(%partition, %error, "partition does not accept appends");
        }
        for note in &recovered.notes {
            warn!(%partition, "{note}");
        }
        if recovered.surviving_messages > 0 || recovered.cut_bytes > 0 {
            info!(
                %partition,
                surviving_messages = recovered.surviving_messages,
                cut_bytes = recovered.cut_bytes,
                "recovered"
            );
        }
    }
    if server.has_exposed_defaults() {
        warn!(
            "default credentials on tcp.address, which is not a loopback address: everyone who \
             reaches it can log in as iggy with the password iggy"
        );
    }
    let addresses = server.addresses();
    let address = |address: Option<std::net::SocketAddr>| {
        address.map_or_else(|| "off".to_owned(), |address| address.to_string())
    };
    info!(
        tcp = address(addresses.tcp),
        http = address(addresses.http),
        path = %config.path.display(),
        append_io_mode = report.modes.append,
        read_io_mode = report.modes.read,
        tail = report.modes.tail,
        block_bytes = report.modes.block,
        durability = config.topics.durability.name(),
        open_files_max = descriptors.limit,
        connections_max = descriptors.connections,
        http_connections_max = descriptors.http_connections,
        log_files_max = descriptors.log,
        version = env!("CARGO_PKG_VERSION"),
        process = std::process::id(),
        "started"
    );
}

fn stopped(shutdown: std::result::Result<Shutdown, tailwater_server::ServerError>) -> Result<()> {
    match shutdown {
        Ok(Shutdown { elapsed, connections, abandoned }) => {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            info!(elapsed_ms, connections, abandoned, "stopped, with everything persisted");
            Ok(())
        }
        Err(error) => {
            error!(%error, "stopped, but not everything is persisted");
            Err(Failure::Refused(error.to_string()))
        }
    }
}
