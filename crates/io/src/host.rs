//! The machine.

/// The machine's name on the network, as the system knows it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
