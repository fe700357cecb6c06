//! Starts the server, listens, and shuts down.

use std::fmt;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use iggy_binary_protocol::EvictionReason;
use tailwater_io::clock::SystemClock;
use tailwater_io::descriptors::Reservation;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, DescriptorBudget, Storage, posix::PosixStorage};
use tailwater_log::{Log, LogOptions, OpenReport, TailMemory};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::balancer::Balancer;
use crate::command;
use crate::config::{self, Config};
use crate::connection::{self, End};
use crate::consumers::Consumers;
use crate::descriptors::DescriptorShares;
use crate::error::ServerError;
use crate::groups::Groups;
use crate::in_flight::InFlight;
use crate::listener::{self, WarningLimiter, listen};
use crate::metrics::Metrics;
use crate::places::{Place, Places};
use crate::session::{Session, Sessions};
use crate::state::State;
use crate::users::{RandomPassword, Users};
use crate::{http, tls};

/// Name of the log's directory within the directory `system.path`.
const LOG: &str = "log";
/// Names of files and directories that Apache Iggy's server creates in its directory, and this
/// server does not.
const IGGY_ENTRIES: &[&str] = &["streams", "state", "metadata", "server.superblock"];
/// Mode of the directory `system.path`: only its owner may access it.
const PRIVATE: u32 = 0o700;
/// Interval at which the server checks heartbeats, handovers of partitions in consumer groups, and
/// expired tokens.
const TICK: Duration = Duration::from_secs(1);
/// Maximum time that a shutdown waits for requests in progress.
const DRAIN: Duration = Duration::from_secs(10);

/// The addresses on which a server listens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The address for clients; `None` if `[tcp]` is off.
    pub tcp: Option<SocketAddr>,
    /// The address for metrics and health; `None` if `[http]` is off.
    pub http: Option<SocketAddr>,
}

/// The result of a shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shutdown {
    /// Duration of the shutdown.
    pub elapsed: Duration,
    /// Number of connections that were open when the shutdown began.
    pub connections: usize,
    /// Number of connections that the shutdown aborted, because their requests were not finished
    /// within the time limit.
    pub abandoned: usize,
}

/// A running server.
///
/// The server needs a tokio runtime with time and I/O drivers. Dropping the server ends its tasks
/// and closes its log.
pub struct Server {
    state: Arc<State>,
    storage: Arc<dyn Storage>,
    addresses: Addresses,
    root_password: Option<RandomPassword>,
    has_exposed_defaults: bool,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<usize>,
    /// The descriptors of connections.
    _descriptors: Reservation,
}

impl Server {
    /// Starts a server: opens the log in the configured directory, and listens on the configured
    /// addresses.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub async fn start(config: Config) -> Result<Self, ServerError> {
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::private());
        let budget = DescriptorBudget::of_process();
        let (descriptors, reserved) =
            DescriptorShares::reserve(&budget, &config).map_err(ServerError::Descriptors)?;
        refuse_foreign_data(&*storage, &config.path)?;
        let tcp = match &config.tcp {
            Some(tcp) => {
                let tls = acceptor("tcp.tls", &tcp.tls)?;
                Some((listen("tcp.address", tcp.address).await?, tls))
            }
            None => None,
        };
        let http = match &config.http {
            Some(http) => {
                let tls = acceptor("http.tls", &http.tls)?;
                Some((listen("http.address", http.address).await?, tls))
            }
            None => None,
        };
        let address = |listener: &TcpListener| listener.local_addr().ok();
        let addresses = Addresses {
            tcp: tcp.as_ref().and_then(|(listener, _)| address(listener)),
            http: http.as_ref().and_then(|(listener, _)| address(listener)),
        };
        let log = open_log(&storage, budget, &config)?;
        // The open log guarantees that no other server uses the directory. If `current_config.toml`
        // exists, an earlier server was killed, and the file is outdated.
        config::check_current(&*storage, &config)?;
        config::remove_current(&*storage, &config)?;
        command::apply_config(&log, &config)?;
        let groups = Groups::open(&log, &config)?;
        config::write_current(&*storage, &config, addresses.tcp, addresses.http)?;
        // The users are opened in the last step that can fail. A new directory gets a root user in
        // this step, and its generated password would be lost if the start failed later.
        let opened = Users::open(&log, &config);
        if opened.is_err() {
            // Remove `current_config.toml`, because it contains addresses on which no server
            // listens. If the removal fails, its error is ignored, and the error of `Users::open`
            // is returned.
            let _ = config::remove_current(&*storage, &config);
        }
        let (users, root_password) = opened?;
        let is_exposed = config.tcp.as_ref().is_some_and(|tcp| !tcp.address.ip().is_loopback());

        let now_us = SystemClock.wall_us();
        let state = Arc::new(State {
            in_flight: InFlight::new(
                config.limits.in_flight_bytes_max,
                config.limits.frame_bytes_max.min(config.limits.connection_bytes_max),
            ),
            consumers: Consumers::new(config.limits.consumers_max),
            descriptors,
            changing: Mutex::default(),
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
        let tasks = spawn_tasks(&state, tcp, http, &is_shutdown);
        let has_exposed_defaults = is_exposed && state.users.has_default_root();
        Ok(Self {
            state,
            storage,
            addresses,
            root_password,
            has_exposed_defaults,
            shutdown,
            tasks,
            _descriptors: reserved,
        })
    }

    /// Returns the addresses on which the server listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns how the server divides the file descriptors of its process.
    pub fn descriptors(&self) -> DescriptorShares {
        self.state.descriptors
    }

    /// Returns the password that was generated for the root user, if this start created the root
    /// user.
    pub fn root_password(&self) -> Option<&str> {
        self.root_password.as_ref().map(RandomPassword::reveal)
    }

    /// Returns whether the server listens on an address that is not a loopback address, and the
    /// root user has the name and password `iggy`.
    pub fn has_exposed_defaults(&self) -> bool {
        self.has_exposed_defaults
    }

    /// Returns the state shared by the server's tasks, for tests.
    #[cfg(test)]
    pub(crate) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Returns what recovery found when the log was opened.
    pub fn open_report(&self) -> &OpenReport {
        self.state.log.open_report()
    }

    /// Stops listening, waits for requests in progress, persists all messages and closes the log.
    ///
    /// # Errors
    /// The first error from the log. Acknowledged messages are then recovered when the log is
    /// opened the next time.
    pub async fn shutdown(mut self) -> Result<Shutdown, ServerError> {
        let began = Instant::now();
        let connections = self.state.sessions.count();
        // Sending fails only if all tasks have ended, because they hold the receivers.
        let _ = self.shutdown.send(true);
        let mut abandoned = 0;
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok(requests) => abandoned += requests,
                Err(error) => tracing::error!(%error, "a task of the server failed"),
            }
        }
        // `current_config.toml` is removed before the log is closed. After the log is closed,
        // another server may own the directory.
        let removed = match self.state.log.check_lock() {
            Ok(()) => config::remove_current(&*self.storage, &self.state.config),
            // The file may belong to another server by now. Closing the log returns the error.
            Err(_) => Ok(()),
        };
        let state = Arc::clone(&self.state);
        let closed = tokio::task::spawn_blocking(move || state.log.close()).await;
        closed.map_err(|panicked| {
            let message = format!("closing the log failed: {panicked}");
            tailwater_log::Error::new(tailwater_log::ErrorKind::Panicked, message)
        })??;
        removed?;
        Ok(Shutdown { elapsed: began.elapsed(), connections, abandoned })
    }
}

/// A listening socket, and the acceptor of its encrypted connections if encryption is on.
type Listener = (TcpListener, Option<TlsAcceptor>);

/// Starts the tasks that serve clients and HTTP, and the task of [`maintain`].
fn spawn_tasks(
    state: &Arc<State>,
    tcp: Option<Listener>,
    http: Option<Listener>,
    is_shutdown: &watch::Receiver<bool>,
) -> JoinSet<usize> {
    let mut tasks = JoinSet::new();
    if let Some((listener, tls)) = tcp {
        tasks.spawn(accept(Arc::clone(state), listener, tls, is_shutdown.clone()));
    }
    if let Some((listener, tls)) = http {
        let (state, is_shutdown) = (Arc::clone(state), is_shutdown.clone());
        tasks.spawn(async move {
            http::serve(listener, tls, state, is_shutdown).await;
            0
        });
    }
    tasks.spawn(maintain(Arc::clone(state), is_shutdown.clone()));
    tasks
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({:?})", self.addresses)
    }
}

/// Rejects a directory that Apache Iggy's server created.
fn refuse_foreign_data(storage: &dyn Storage, path: &Path) -> Result<(), ServerError> {
    let entries = match storage.list(path) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let is_iggys = |name: &str| IGGY_ENTRIES.contains(&name);
    match entries.iter().find(|entry| is_iggys(&entry.name)) {
        None => Ok(()),
        Some(entry) => Err(ServerError::ForeignData(format!(
            "{} contains Apache Iggy's data ('{}'): choose another system.path, and fill it from the \
             running server with 'tailwater log import'",
            path.display(),
            entry.name
        ))),
    }
}

fn open_log(
    storage: &Arc<dyn Storage>,
    budget: DescriptorBudget,
    config: &Config,
) -> Result<Log, ServerError> {
    create_private_directory(&config.path)?;
    let limits = &config.limits;
    let is_shared = config.segment.has_shared_memory;
    let tail_memory = if is_shared { TailMemory::Automatic } else { TailMemory::Private };
    let options = LogOptions::new()
        .with_storage(Arc::clone(storage))
        .with_descriptor_budget(budget)
        .with_tail_memory(tail_memory)
        .with_append_io_mode(config.segment.append_io_mode)
        .with_syncs_appends(config.segment.syncs_appends)
        .with_read_io_mode(config.segment.read_io_mode)
        .with_tail_bytes_max(config.memory.tail_bytes_max)
        .with_partition_unpersisted_bytes_max(config.memory.partition_unpersisted_bytes_max)
        .with_batch_bytes_max(limits.frame_bytes_max.min(limits.connection_bytes_max))
        .with_persisters(config.segment.persisters)
        .with_read_ahead_bytes_max(config.memory.read_ahead_bytes_max);
    Ok(Log::open(config.path.join(LOG), &options)?)
}

/// Creates the directory `system.path`. Only its owner may access it, because it contains messages
/// and password hashes. The mode of an existing directory is not changed; the files that the server
/// creates in it are nevertheless private.
fn create_private_directory(path: &Path) -> Result<(), ServerError> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        PosixStorage::new().create_directory(parent)?;
    }
    match DirBuilder::new().mode(PRIVATE).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            let directory = path.display();
            Err(ServerError::Directory(format!("{directory}: cannot create it: {error}")))
        }
        _ => Ok(()),
    }
}

fn acceptor(section: &str, tls: &Option<config::Tls>) -> Result<Option<TlsAcceptor>, ServerError> {
    tls.as_ref().map(|tls| tls::acceptor(section, tls)).transpose()
}

/// Accepts clients until the server shuts down, and then waits until their connections have ended.
/// Returns the number of connections that were aborted because their requests were not finished
/// within [`DRAIN`].
async fn accept(
    state: Arc<State>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    is_shutdown: watch::Receiver<bool>,
) -> usize {
    let connections_max = state.descriptors.connections;
    let places = Places::new(connections_max);
    let mut warning = WarningLimiter::default();
    let shutdown = is_shutdown.clone();
    let mut connections = listener::accept(listener, shutdown, |connections, stream, address| {
        if !places.make_room() {
            state.metrics.refused("connections_max");
            if warning.is_due() {
                warn!(
                    %address,
                    "connections are refused: {connections_max} are open, the maximum according to \
                     limits.connections_max and the limit on open files"
                );
            }
            return;
        };
        let (state, tls, is_shutdown) = (Arc::clone(&state), tls.clone(), is_shutdown.clone());
        let guard = ConnectionGuard::new(&state, &places, address);
        let id = guard.session.id;
        let task = connections.spawn(serve(guard, stream, tls, is_shutdown));
        places.set_task(id, task);
    })
    .await;
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

/// Serves a client until its connection ends, and then ends the client's session.
async fn serve(
    guard: ConnectionGuard,
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    mut is_shutdown: watch::Receiver<bool>,
) {
    let ConnectionGuard { state, session, .. } = &guard;
    let address = session.address;
    let login_by = tokio::time::Instant::now() + state.config.limits.unauthenticated_timeout;
    debug!(%address, session = session.id.0, "connected");
    let end = match tls {
        None => connection::serve(state, session, stream, is_shutdown, login_by).await,
        Some(tls) => {
            let handshake = timeout_at(login_by, tls.accept(stream));
            let encrypted = tokio::select! {
                biased;
                _ = is_shutdown.wait_for(|is_shutdown| *is_shutdown) => Err(End::Shutdown),
                done = handshake => match done {
                    Ok(stream) => stream.map_err(End::Io),
                    Err(_) => Err(End::Slow("negotiating TLS")),
                },
            };
            match encrypted {
                Ok(stream) => {
                    connection::serve(state, session, stream, is_shutdown, login_by).await
                }
                Err(end) => end,
            }
        }
    };
    let is_notable = !matches!(end, End::Closed | End::Shutdown);
    // A client that is not logged in can cause any number of these log lines. So the line about
    // such a client is logged only at debug level.
    if is_notable && session.binding().is_some() {
        info!(%address, session = session.id.0, %end, "connection ended");
    } else {
        debug!(%address, session = session.id.0, %end, "connection ended");
    }
}

/// Ends the session of a connection when it is dropped. A guard is used because the task of the
/// connection may also be aborted or panic.
struct ConnectionGuard {
    state: Arc<State>,
    session: Arc<Session>,
    /// The place of the connection, which is free when the guard is dropped.
    _place: Place,
}

impl ConnectionGuard {
    fn new(state: &Arc<State>, places: &Places, address: SocketAddr) -> Self {
        state.metrics.connection_opened();
        let session = state.sessions.open(address);
        let place = places.take(&session);
        Self { state: Arc::clone(state), session, _place: place }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.state.groups.leave_all(self.session.id);
        self.state.sessions.close(&self.session);
        self.state.metrics.connection_closed();
    }
}

/// Once per [`TICK`], completes overdue handovers of partitions, evicts silent members of groups,
/// warns of delayed persists, and removes expired tokens. Ends when the server shuts down.
async fn maintain(state: Arc<State>, mut is_shutdown: watch::Receiver<bool>) -> usize {
    let mut warning = WarningLimiter::default();
    loop {
        let shutdown = is_shutdown.wait_for(|is_shutdown| *is_shutdown);
        if tokio::time::timeout(TICK, shutdown).await.is_ok() {
            return 0;
        }
        state.groups.tick(Instant::now());
        evict_silent_members(&state);
        warn_of_delays(&state, &mut warning);
        let state = Arc::clone(&state);
        let now_us = SystemClock.wall_us();
        let removed =
            tokio::task::spawn_blocking(move || state.users.remove_expired(&state.log, now_us));
        // A failure was already logged, and the next tick tries the removal again.
        let _ = removed.await;
    }
}

/// Warns if partitions cannot persist messages because no file descriptor is left.
fn warn_of_delays(state: &State, warning: &mut WarningLimiter) {
    let delays: Vec<_> = state.log.partitions().iter().filter_map(|it| it.delay()).collect();
    if let Some(error) = delays.first()
        && warning.is_due()
    {
        let partitions = delays.len();
        warn!(partitions, %error, "messages wait in memory until they can be persisted");
    }
}

/// Evicts the sessions of group members that have sent no request for 1.2 heartbeat intervals.
fn evict_silent_members(state: &State) {
    let Some(interval) = state.config.heartbeat_interval else { return };
    let limit = interval.saturating_mul(6) / 5;
    for session in state.sessions.all() {
        if session.idle() > limit && state.groups.is_member_anywhere(session.id) {
            session.evict(EvictionReason::StaleClient);
            // The session ends only when its connection notices the eviction. The connection may be
            // blocked while it writes a reply. The session's memberships therefore end here, so
            // that other members get its partitions immediately.
            state.groups.leave_all(session.id);
        }
    }
}

#[cfg(test)]
mod tests;
