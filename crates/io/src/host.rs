//! The machine.

/// The machine's name on the network, as the system knows it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// An id that the running system got when it was booted; `None` where it does not tell.
pub fn boot_id() -> Option<String> {
    crate::kernel::System::default().word("/proc/sys/kernel/random/boot_id")
}

/// How many files this process may have open at a time (the soft `RLIMIT_NOFILE`); the largest
/// number where there is no limit.
pub fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Gives memory back to the system that was freed and that the allocator keeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the allocator is C's")]
pub fn release_free_memory() {
    // SAFETY: it takes no memory of ours, and may be called at any time from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_free_memory() {}
