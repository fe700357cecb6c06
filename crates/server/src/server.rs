//! Starting, listening and shutting down.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use iggy_binary_protocol::EvictionReason;
use tailwater_io::Clock;
use tailwater_io::clock::SystemClock;
use tailwater_io::{Storage, posix::PosixStorage};
use tailwater_log::{Log, LogOptions, OpenReport, TailMemory};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::command::{self, Balancer};
use crate::config::{self, Config};
use crate::connection::{self, End};
use crate::groups::Groups;
use crate::metrics::Metrics;
use crate::session::{Session, Sessions};
use crate::state::{InFlight, State};
use crate::users::{RandomPassword, Users};
use crate::{http, tls};

/// The log's directory under the system path.
const LOG: &str = "log";
/// Entries of a system path that only Apache Iggy's server makes.
const IGGYS: &[&str] = &["streams", "state", "metadata", "server.superblock"];
/// Time between looks at heartbeats, groups and expired tokens.
const TICK: Duration = Duration::from_secs(1);
/// Longest time that a shutdown waits for requests under way.
const DRAIN: Duration = Duration::from_secs(10);
/// Time to wait after the system refused a connection, for want of descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server does not start or end.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The log cannot be opened, or not be closed.
    Log(tailwater_log::Error),
    /// The directory holds Apache Iggy's data, which nothing here writes to.
    ForeignData(String),
    /// An address cannot be listened on.
    Listen {
        /// Key of the address.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A certificate or key cannot be used.
    Tls(String),
    /// The directory cannot be written to.
    Storage(tailwater_io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::ForeignData(message) | Self::Tls(message) => f.write_str(message),
            Self::Listen { key, address, source } => {
                write!(f, "{key}: cannot listen on {address}: {source}")
            }
            Self::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error),
            Self::Listen { source, .. } => Some(source),
            Self::Storage(error) => Some(error),
            Self::ForeignData(_) | Self::Tls(_) => None,
        }
    }
}

impl From<tailwater_log::Error> for ServerError {
    fn from(error: tailwater_log::Error) -> Self {
        Self::Log(error)
    }
}

impl From<tailwater_io::Error> for ServerError {
    fn from(error: tailwater_io::Error) -> Self {
        Self::Storage(error)
    }
}

/// Where a server listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// For clients; none where `[tcp]` is off.
    pub tcp: Option<SocketAddr>,
    /// For metrics and health; none where `[http]` is off.
    pub http: Option<SocketAddr>,
}

/// What a shutdown came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shutdown {
    /// Time that it took.
    pub elapsed: Duration,
    /// Connections that were open.
    pub connections: usize,
    /// Requests that were not finished in time.
    pub abandoned: usize,
}

/// A running server.
///
/// It needs a tokio runtime with a timer and input and output. Dropping it ends its tasks, and
/// closes its log.
pub struct Server {
    state: Arc<State>,
    addresses: Addresses,
    root_password: Option<RandomPassword>,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<usize>,
}

impl Server {
    /// Opens the directory, and begins to listen.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new());
        refuse_foreign_data(&*storage, &config.path)?;
        let log = open_log(&storage, &config)?;
        command::apply_config(&log, &config)?;
        let (users, root_password) = Users::open(&log, &config)?;
        let groups = Groups::open(&log, &config)?;
        let tcp = match &config.tcp {
            Some(tcp) => Some((listen("tcp.address", tcp.address).await?, acceptor(&tcp.tls)?)),
            None => None,
        };
        let http = match &config.http {
            Some(http) => Some((listen("http.address", http.address).await?, acceptor(&http.tls)?)),
            None => None,
        };
        let address = |listener: &TcpListener| listener.local_addr().ok();
        let addresses = Addresses {
            tcp: tcp.as_ref().and_then(|(listener, _)| address(listener)),
            http: http.as_ref().and_then(|(listener, _)| address(listener)),
        };
        config::write_current(&*storage, &config, addresses.tcp, addresses.http)?;

        let now_us = SystemClock.wall_us();
        let state = Arc::new(State {
            in_flight: InFlight::new(config.limits.in_flight_bytes_max),
            log,
            users,
            groups,
            sessions: Sessions::new(now_us),
            balancer: Balancer::default(),
            metrics: Metrics::new(),
            commits: AtomicU64::new(1),
            started: Instant::now(),
            started_us: now_us,
            port: addresses.tcp.map_or(0, |address| address.port()),
            config,
        });
        let (shutdown, is_shutdown) = watch::channel(false);
        let mut tasks = JoinSet::new();
        if let Some((listener, tls)) = tcp {
            tasks.spawn(accept(Arc::clone(&state), listener, tls, is_shutdown.clone()));
        }
        if let Some((listener, tls)) = http {
            let state = Arc::clone(&state);
            let is_shutdown = is_shutdown.clone();
            tasks.spawn(async move {
                http::serve(listener, tls, state, is_shutdown).await;
                0
            });
        }
        tasks.spawn(maintain(Arc::clone(&state), is_shutdown));
        Ok(Self { state, addresses, root_password, shutdown, tasks })
    }

    /// Returns where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the password that was made up for the root user of a new directory.
    pub fn root_password(&self) -> Option<&str> {
        self.root_password.as_ref().map(RandomPassword::reveal)
    }

    /// Returns what opening the log found.
    pub fn open_report(&self) -> &OpenReport {
        self.state.log.open_report()
    }

    /// Stops listening, lets requests under way finish, persists everything and closes the log.
    ///
    /// # Errors
    /// The first that the log had; what was acknowledged is recovered when it is opened again.
    pub async fn shutdown(mut self) -> Result<Shutdown, ServerError> {
        let began = Instant::now();
        let connections = self.state.sessions.count();
        // All receivers may be gone.
        let _ = self.shutdown.send(true);
        let mut abandoned = 0;
        while let Some(ended) = self.tasks.join_next().await {
            abandoned += ended.unwrap_or(0);
        }
        let state = Arc::clone(&self.state);
        let closed = tokio::task::spawn_blocking(move || state.log.close()).await;
        closed.unwrap_or(Ok(()))?;
        Ok(Shutdown { elapsed: began.elapsed(), connections, abandoned })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.addresses)
    }
}

/// Refuses a directory that Apache Iggy's server made.
fn refuse_foreign_data(storage: &dyn Storage, path: &Path) -> Result<(), ServerError> {
    let entries = match storage.list(path) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_iggys = |name: &str| IGGYS.contains(&name);
    match entries.iter().find(|entry| is_iggys(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(ServerError::ForeignData(format!(
            "{} holds Apache Iggy's data ('{}'): choose another system.path, and fill it from the \
             running server with 'tailwater log import'",
            path.display(),
            entry.name
        ))),
    }
}

fn open_log(storage: &Arc<dyn Storage>, config: &Config) -> Result<Log, ServerError> {
    let directory = config.path.join(LOG);
    create_directories(&**storage, &config.path)?;
    let options = LogOptions {
        storage: Arc::clone(storage),
        tail_memory: match config.segment.has_shared_memory {
            true => TailMemory::Automatic,
            false => TailMemory::Private,
        },
        append_io_mode: config.segment.append_io_mode,
        syncs_appends: config.segment.syncs_appends,
        read_io_mode: config.segment.read_io_mode,
        tail_bytes_max: config.memory.tail_bytes_max,
        partition_unpersisted_bytes_max: config.memory.partition_unpersisted_bytes_max,
        batch_bytes_max: config.limits.frame_bytes_max,
        persisters: config.segment.persisters,
        read_ahead_bytes_max: config.memory.read_ahead_bytes_max,
        ..LogOptions::default()
    };
    Ok(Log::open(directory, &options)?)
}

/// Creates a directory and those above it, where they are missing.
fn create_directories(storage: &dyn Storage, path: &Path) -> Result<(), ServerError> {
    if path.as_os_str().is_empty() || storage.metadata(path).is_ok() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_directories(storage, parent)?;
    }
    Ok(storage.create_directory(path)?)
}

async fn listen(key: &'static str, address: SocketAddr) -> Result<TcpListener, ServerError> {
    let listen = |source| ServerError::Listen { key, address, source };
    TcpListener::bind(address).await.map_err(listen)
}

fn acceptor(tls: &Option<config::Tls>) -> Result<Option<TlsAcceptor>, ServerError> {
    tls.as_ref().map(tls::acceptor).transpose()
}

/// Accepts clients until the server shuts down. Returns how many connections were abandoned.
async fn accept(
    state: Arc<State>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut is_shutdown: watch::Receiver<bool>,
) -> usize {
    let places = Arc::new(Semaphore::new(state.config.limits.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = is_shutdown.wait_for(|is_shutdown| *is_shutdown) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "connection not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            warn!(%address, "connection refused: limits.connections_max are open");
            state.metrics.refused("connections_max");
            continue;
        };
        let (state, tls, is_shutdown) = (Arc::clone(&state), tls.clone(), is_shutdown.clone());
        connections.spawn(async move {
            serve(&state, stream, address, tls, is_shutdown).await;
            drop(place);
        });
    }
    drop(listener);
    let drained =
        tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} });
    match drained.await {
        Ok(()) => 0,
        Err(_) => {
            let abandoned = connections.len();
            connections.shutdown().await;
            abandoned
        }
    }
}

/// Serves a client until its connection ends, and leaves nothing of it behind.
async fn serve(
    state: &Arc<State>,
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    is_shutdown: watch::Receiver<bool>,
) {
    // A reply goes out at once.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%address, %error, "TCP_NODELAY not set");
    }
    state.metrics.connection_opened();
    let open = Open { state, session: state.sessions.open(address) };
    let session = &open.session;
    debug!(%address, session = session.id.0, "connected");
    let end = match tls {
        None => connection::serve(state, session, stream, is_shutdown).await,
        Some(tls) => {
            let limit = state.config.limits.unauthenticated_timeout;
            match tokio::time::timeout(limit, tls.accept(stream)).await {
                Ok(Ok(stream)) => connection::serve(state, session, stream, is_shutdown).await,
                Ok(Err(error)) => End::Io(error),
                Err(_) => End::Slow("negotiating TLS"),
            }
        }
    };
    match end {
        End::Closed | End::Shutdown => {
            debug!(%address, session = session.id.0, %end, "connection ended");
        }
        end => info!(%address, session = session.id.0, %end, "connection ended"),
    }
}

/// A session whose connection is open. Dropping it ends the session, however the task ends.
struct Open<'a> {
    state: &'a State,
    session: Arc<Session>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.state.groups.leave_all(self.session.id);
        self.state.sessions.close(&self.session);
        self.state.metrics.connection_closed();
    }
}

/// Looks after heartbeats, groups and tokens until the server shuts down.
async fn maintain(state: Arc<State>, mut is_shutdown: watch::Receiver<bool>) -> usize {
    loop {
        let shutdown = is_shutdown.wait_for(|is_shutdown| *is_shutdown);
        if tokio::time::timeout(TICK, shutdown).await.is_ok() {
            return 0;
        }
        state.groups.tick(Instant::now());
        if let Some(limit) = state.config.heartbeat_timeout {
            for session in state.sessions.all() {
                if session.idle() > limit && state.groups.is_member_anywhere(session.id) {
                    session.evict(EvictionReason::StaleClient);
                }
            }
        }
        let state = Arc::clone(&state);
        let now_us = SystemClock.wall_us();
        let removed =
            tokio::task::spawn_blocking(move || state.users.remove_expired(&state.log, now_us));
        // A failure is logged there, and tried again.
        let _ = removed.await;
    }
}
