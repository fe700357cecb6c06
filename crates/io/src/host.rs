//! The machine.

/// The machine's name on the network, as the system knows it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// How many files this process may have open at a time (the soft `RLIMIT_NOFILE`); the largest
/// number where there is no limit.
pub fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
