//! How a server divides the file descriptors of its process.
//!
//! Connections have a share of their own, which is reserved when the server starts. So clients that
//! connect cannot take the descriptors that the log needs, and open segments cannot keep clients
//! from connecting. The log uses what is left; [`tailwater_io::descriptors`] describes how.

use tailwater_io::DescriptorBudget;
use tailwater_io::descriptors::Reservation;

use crate::config::Config;

/// Descriptors for everything but connections and the log: standard streams, listening sockets, the
/// runtime's events, log files, a connection that is being refused.
const OTHERS: usize = 32;
/// Least limit on open files with which a server starts.
const LIMIT_MIN: usize = 64;
/// Descriptors that connections leave to the log if the limit allows it.
const LOG_WANTED: usize = 2048;
/// Maximum number of concurrent HTTP connections.
const HTTP_CONNECTIONS_MAX: usize = 64;
/// Share of HTTP in the connections, if the limit is low: 1/HTTP_PART.
const HTTP_PART: usize = 8;

/// The division of the process's file descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DescriptorShares {
    /// Maximum number of open files of the process (`RLIMIT_NOFILE`).
    pub limit: usize,
    /// Maximum number of clients' connections: `limits.connections_max`, or fewer if the limit is
    /// too low.
    pub connections: usize,
    /// Maximum number of HTTP connections.
    pub http_connections: usize,
    /// Number of descriptors that are left to the log.
    pub log: usize,
}

impl DescriptorShares {
    /// Divides `limit` descriptors. At least half of them, or [`LOG_WANTED`] if that is less, are
    /// left to the log.
    fn new(limit: usize, connections_max: usize, has_http: bool) -> Self {
        let left = limit.saturating_sub(OTHERS);
        let most = left - (left / 2).min(LOG_WANTED);
        let wanted_http = if has_http { HTTP_CONNECTIONS_MAX } else { 0 };
        let http_connections = wanted_http.min(most / HTTP_PART);
        let connections = connections_max.min(most - http_connections);
        let log = left - connections - http_connections;
        Self { limit, connections, http_connections, log }
    }

    /// Divides the descriptors of a budget, and reserves those that are not for the log.
    ///
    /// # Errors
    /// A message, if the limit is too low for a server.
    pub(crate) fn reserve(
        budget: &DescriptorBudget,
        config: &Config,
    ) -> Result<(Self, Reservation), String> {
        let limit = budget.limit();
        if limit < LIMIT_MIN {
            return Err(format!(
                "this process may have at most {limit} open files (RLIMIT_NOFILE, `ulimit -n`), \
                 but a server needs {LIMIT_MIN}"
            ));
        }
        let connections_max = config.tcp.as_ref().map_or(0, |_| config.limits.connections_max);
        let shares = Self::new(limit, connections_max, config.http.is_some());
        let reserved = shares.connections + shares.http_connections + OTHERS;
        Ok((shares, budget.reserve(reserved)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_connections_nor_the_log_get_less_than_half_of_a_low_limit() {
        for limit in [LIMIT_MIN, 100, 150, 200, 300, 1024, 4096] {
            let shares = DescriptorShares::new(limit, 16_384, true);
            let DescriptorShares { connections, http_connections, log, .. } = shares;
            assert_eq!(connections + http_connections + log + OTHERS, limit);
            assert!(log >= (limit - OTHERS) / 2, "{shares:?}");
            assert!(log < 2 + (limit - OTHERS) / 2 || log == LOG_WANTED, "{shares:?}");
            assert!(http_connections > 0 && connections > http_connections, "{shares:?}");
        }
    }

    #[test]
    fn a_high_limit_is_enough_for_all_connections() {
        let shares = DescriptorShares::new(20_000, 16_384, true);
        assert_eq!((shares.connections, shares.http_connections), (16_384, 64));
        let unlimited = DescriptorShares::new(usize::MAX, 16_384, false);
        assert_eq!((unlimited.connections, unlimited.http_connections), (16_384, 0));
        let few = DescriptorShares::new(200, 10, true);
        assert_eq!((few.connections, few.log), (10, 200 - OTHERS - 10 - few.http_connections));
    }
}
