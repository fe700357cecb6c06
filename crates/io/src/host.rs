//! Properties of the machine.

/// Returns the machine's host name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the id of the machine's current boot; `None` if the system does not have one.
pub fn boot_id() -> Option<String> {
    crate::kernel::System::default().word("/proc/sys/kernel/random/boot_id")
}

/// Returns to the system the memory that was freed but that the allocator retains. Only glibc's
/// allocator supports this; with another one the function does nothing.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator is C's")]
pub fn release_free_memory() {
    // SAFETY: `malloc_trim` accesses only the allocator's own memory, and may be called at any time
    // from any thread.
    unsafe { libc::malloc_trim(0) };
}

/// Does nothing: only glibc's allocator can return memory to the system on request.
#[cfg(not(target_env = "gnu"))]
pub fn release_free_memory() {}
