//! Memory that C frees: it always comes from `malloc`.

use std::alloc::{Layout, handle_alloc_error};
use std::ffi::{c_char, c_void};

/// Allocates `length` bytes with `malloc`, at least one. Never returns null.
fn allocate(length: usize) -> *mut c_void {
    // SAFETY: `malloc` has no preconditions.
    let memory = unsafe { libc::malloc(length.max(1)) };
    if memory.is_null() {
        handle_alloc_error(Layout::array::<u8>(length).unwrap_or(Layout::new::<u8>()));
    }
    memory
}

/// Returns a copy of `bytes`, followed by a zero byte.
pub(crate) fn copy_bytes(bytes: &[u8]) -> *mut c_char {
    let copy = allocate(bytes.len() + 1).cast::<u8>();
    // SAFETY: `copy` has room for the bytes and the zero, and overlaps nothing.
    unsafe {
        copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        copy.add(bytes.len()).write(0);
    }
    copy.cast()
}

/// Returns a copy of `text` as a C string, up to its first zero byte.
pub(crate) fn copy_text(text: &str) -> *mut c_char {
    let length = text.bytes().position(|byte| byte == 0).unwrap_or(text.len());
    copy_bytes(&text.as_bytes()[..length])
}

/// Returns an array with these items.
pub(crate) fn copy_list<T: Copy>(items: &[T]) -> *mut T {
    let copy = allocate(size_of_val(items)).cast::<T>();
    // SAFETY: `copy` has room for the items, and `malloc` aligns memory for every type of the
    // interface.
    unsafe { copy.copy_from_nonoverlapping(items.as_ptr(), items.len()) };
    copy
}

/// Frees memory from `malloc`, or null.
///
/// # Safety
/// `memory` is null or comes from `malloc`, and is not used again.
pub(crate) unsafe fn release(memory: *mut c_void) {
    // SAFETY: see above.
    unsafe { libc::free(memory) };
}
