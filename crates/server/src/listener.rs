//! Accepts connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::error::ServerError;

/// Pause after the operating system failed to accept a connection, for example because no file
/// descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);
/// Minimum time between two warnings from one [`WarningLimiter`].
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Time without traffic after which TCP sends the first keepalive probe on a connection.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Time between two keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Number of unanswered keepalive probes at which TCP closes the connection.
const KEEPALIVE_PROBES: u32 = 3;

/// Listens on `address`. `key` is the configuration key with that address, for the error.
///
/// # Errors
/// Errors from listening on the address.
pub(crate) async fn listen(
    key: &'static str,
    address: SocketAddr,
) -> Result<TcpListener, ServerError> {
    let listen = |source| ServerError::Listen { key, address, source };
    TcpListener::bind(address).await.map_err(listen)
}

/// Accepts connections until the server shuts down. Calls `admit` for each connection. `admit`
/// either spawns a task that serves the connection, or drops the connection, which closes it.
/// Returns the tasks that have not ended.
pub(crate) async fn accept(
    listener: TcpListener,
    mut is_shutdown: watch::Receiver<bool>,
    mut admit: impl FnMut(&mut JoinSet<()>, TcpStream, SocketAddr),
) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    let mut warning = WarningLimiter::default();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = is_shutdown.wait_for(|is_shutdown| *is_shutdown) => return connections,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                if let Err(error) = configure(&stream) {
                    debug!(%address, %error, "cannot set socket options");
                }
                admit(&mut connections, stream, address);
            }
            Err(error) => {
                if warning.is_due() {
                    warn!(%error, "connection not accepted");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Sets the socket options of a connection: replies are sent without delay, and keepalive probes
/// detect dead clients.
fn configure(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Limits the rate of warnings that clients can cause.
#[derive(Debug, Default)]
pub(crate) struct WarningLimiter(Option<Instant>);

impl WarningLimiter {
    /// Returns whether a warning may be logged now. If so, none may be logged for the next
    /// [`WARNING_INTERVAL`].
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.0.is_none_or(|last| now.duration_since(last) >= WARNING_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_probed_while_it_is_silent() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listen("tcp.address", address).await.expect("an address");
        let address = listener.local_addr().expect("an address");
        let _client = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        configure(&stream).expect("configured");
        assert!(stream.nodelay().expect("an option"));
        assert!(sockopt::socket_keepalive(&stream).expect("an option"));
        assert_eq!(sockopt::tcp_keepidle(&stream).expect("an option"), KEEPALIVE_IDLE);
        assert_eq!(sockopt::tcp_keepintvl(&stream).expect("an option"), KEEPALIVE_INTERVAL);
        assert_eq!(sockopt::tcp_keepcnt(&stream).expect("an option"), KEEPALIVE_PROBES);
    }

    #[test]
    fn repeated_warnings_are_rate_limited() {
        let mut warning = WarningLimiter::default();
        assert!(warning.is_due() && !warning.is_due());
    }
}
