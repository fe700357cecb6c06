//! The HTTP interface for metrics and health.
//!
//! Iggy's own HTTP interface is not supported: requests for its paths are answered with status 501.
//! A connection serves one request, with small limits on time and memory. The number of connections
//! is limited; a new connection replaces the oldest connection that has not yet sent a request. The
//! metrics are rendered on a thread that may block, because rendering visits every partition.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::listener;
use crate::prometheus;
use crate::state::State;

/// Size of the buffer for the request line and the headers, in bytes. A request with more is
/// rejected.
const HEADER_BYTES: usize = 16 << 10;
/// Maximum number of headers of a request.
const HEADERS: usize = 64;
/// Maximum time from the start of a connection until the headers of its request have arrived.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum duration of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of failed partitions that `/health` lists.
const FAILURES: usize = 100;

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Serves HTTP until the server shuts down.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    state: Arc<State>,
    shutdown: watch::Receiver<bool>,
) {
    let mut places = ServedConnections::new(state.descriptors.http_connections);
    let connections = listener::accept(listener, shutdown, |connections, stream, address| {
        if !places.make_room() {
            state.metrics.refused("http_connections_max");
            return;
        }
        let has_requested = Arc::new(AtomicBool::new(false));
        let (state, tls, requested) = (Arc::clone(&state), tls.clone(), Arc::clone(&has_requested));
        let task = connections.spawn(async move {
            let served = timeout(CONNECTION_TIMEOUT, async {
                match tls {
                    None => serve_connection(state, stream, &requested).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => serve_connection(state, stream, &requested).await,
                        Err(error) => debug!(%address, %error, "TLS of an HTTP connection failed"),
                    },
                }
            });
            if served.await.is_err() {
                debug!(%address, "HTTP connection took too long");
            }
        });
        places.open.push(ServedConnection { task, has_requested });
    })
    .await;
    // Dropping the connections aborts their tasks, without waiting for requests in progress.
    drop(connections);
}

/// The open connections.
struct ServedConnections {
    /// Maximum number of open connections.
    connections_max: usize,
    /// The connections, in the order in which they were accepted.
    open: Vec<ServedConnection>,
}

struct ServedConnection {
    task: AbortHandle,
    /// Whether all headers of the connection's request have arrived.
    has_requested: Arc<AtomicBool>,
}

impl ServedConnections {
    fn new(connections_max: usize) -> Self {
        Self { connections_max, open: Vec::new() }
    }

    /// Makes sure that one more connection does not exceed the limit. If the limit is reached,
    /// closes the oldest connection whose request has not arrived. Returns false if there is no
    /// such connection.
    fn make_room(&mut self) -> bool {
        self.open.retain(|place| !place.task.is_finished());
        if self.open.len() < self.connections_max {
            return true;
        }
        let is_silent = |place: &ServedConnection| !place.has_requested.load(Ordering::Relaxed);
        let Some(oldest) = self.open.iter().position(is_silent) else { return false };
        self.open.remove(oldest).task.abort();
        true
    }
}

async fn serve_connection<S>(state: Arc<State>, stream: S, has_requested: &AtomicBool)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(|request| {
        has_requested.store(true, Ordering::Relaxed);
        answer(Arc::clone(&state), request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "HTTP connection failed");
    }
}

/// Answers a request. The body of the request is not read.
async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<String>, Infallible> {
    let path = request.uri().path();
    let metrics_path = state.config.http.as_ref().and_then(|http| http.metrics_path.as_deref());
    let is_metrics = metrics_path == Some(path);
    let is_health = path == "/health";
    let is_ours = is_metrics || is_health || path == "/ping";
    if !is_ours {
        return Ok(not_implemented(path));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response =
            respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "use GET or HEAD\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    if !is_metrics && !is_health {
        return Ok(respond(StatusCode::OK, TEXT, "pong".to_owned()));
    }
    let rendered = tokio::task::spawn_blocking(move || {
        if is_metrics {
            respond(StatusCode::OK, PROMETHEUS, prometheus::render(&state))
        } else {
            health(&state)
        }
    });
    Ok(rendered.await.unwrap_or_else(|error| {
        warn!(%error, "HTTP request failed");
        respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "failed; the log says why\n".to_owned())
    }))
}

/// Returns the reply to `/health`: whether all partitions accept appends, and which ones do not.
fn health(state: &State) -> Response<String> {
    let partitions = state.log.partitions();
    let failures: Vec<_> = partitions
        .iter()
        .filter_map(|partition| Some((partition.id(), partition.failure()?)))
        .collect();
    let listed: Vec<_> = failures
        .iter()
        .take(FAILURES)
        .map(|(id, error)| {
            json!({
                "stream": id.stream,
                "topic": id.topic,
                "partition": id.partition,
                // The reply contains only the kind of the error. The text of the error contains
                // paths, and this request requires no login.
                "error": format!("{:?}", error.kind()),
            })
        })
        .collect();
    let (code, status) = if failures.is_empty() {
        (StatusCode::OK, "healthy")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failed")
    };
    let document = json!({
        "status": status,
        "partitions": partitions.len(),
        "failed": failures.len(),
        "failures": listed,
    });
    respond(code, JSON, document.to_string())
}

fn not_implemented(path: &str) -> Response<String> {
    let document = json!({
        "code": "not_implemented",
        "reason": "this server offers Iggy's protocol over TCP; HTTP serves /ping, /health and \
                   metrics only",
        "path": path,
    });
    respond(StatusCode::NOT_IMPLEMENTED, JSON, document.to_string())
}

fn respond(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
