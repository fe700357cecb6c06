//! The state of a program's callbacks, with its destructor.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Destroys a callback's state.
pub(crate) type Destructor = Option<unsafe extern "C-unwind" fn(*mut c_void)>;
/// Returns the name of a user's object: a C string that lives as long as the state.
pub(crate) type Name = Option<unsafe extern "C-unwind" fn(*mut c_void) -> *const c_char>;

/// The state of a user's object. Dropping it calls the destructor.
#[derive(Debug)]
pub(crate) struct State {
    pointer: *mut c_void,
    destructor: Destructor,
}

// SAFETY: the interface demands that callbacks may be called by any thread, and concurrently.
unsafe impl Send for State {}
// SAFETY: see above.
unsafe impl Sync for State {}

impl State {
    pub(crate) fn new(pointer: *mut c_void, destructor: Destructor) -> Self {
        Self { pointer, destructor }
    }

    /// Returns the pointer that every callback receives.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// Returns what `name` returns; nothing if it or its result is null.
    pub(crate) fn name(&self, name: Name) -> String {
        let Some(name) = name else { return String::new() };
        // SAFETY: `name` belongs to this state.
        let name = unsafe { name(self.pointer) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: what is not null is a C string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // A panic of the destructor is ignored: the object is gone.
            // SAFETY: nothing uses the state any more.
            let _ = catch_unwind(AssertUnwindSafe(|| unsafe { destructor(self.pointer) }));
        }
    }
}
