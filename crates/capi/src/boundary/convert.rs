//! Conversion of pointers.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::slice;

use super::failure::{Failure, Outcome};
use super::live;

#[cold]
fn null(name: &str) -> Failure {
    Failure::invalid(format!("argument {name} is NULL"))
}

#[cold]
fn too_long(name: &str, length: usize) -> Failure {
    Failure::invalid(format!("argument {name} has a length of {length} bytes"))
}

/// Returns the object at `pointer`.
///
/// # Safety
/// `pointer` is null, or points to an object that lives as long as the result.
#[inline]
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Outcome<&'a T> {
    // SAFETY: see above.
    unsafe { optional(pointer, name) }.ok_or_else(|| null(name))
}

/// Like [`reference`], but null is `None`.
///
/// # Safety
/// See [`reference`].
#[inline]
pub(crate) unsafe fn optional<'a, T>(pointer: *const T, name: &str) -> Option<&'a T> {
    live::check(pointer, name);
    // SAFETY: see above.
    unsafe { pointer.as_ref() }
}

/// Returns the object at `pointer`.
///
/// # Safety
/// `pointer` is null, or points to an object that lives as long as the result, and is not used
/// otherwise meanwhile.
#[inline]
pub(crate) unsafe fn reference_mut<'a, T>(pointer: *mut T, name: &str) -> Outcome<&'a mut T> {
    live::check(pointer, name);
    // SAFETY: see above.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Takes an object back.
///
/// # Safety
/// `pointer` is null, or comes from [`give`](super::give) and is not used again.
#[inline]
pub(crate) unsafe fn owned<T>(pointer: *mut T, name: &str) -> Option<Box<T>> {
    if pointer.is_null() {
        return None;
    }
    live::remove(pointer, name);
    // SAFETY: see above.
    Some(unsafe { Box::from_raw(pointer) })
}

/// Returns the bytes at `pointer`. With length 0, the pointer may be anything.
///
/// # Safety
/// If `length` is not 0, `pointer` is null or points to this number of bytes, which live and do not
/// change as long as the result.
#[inline]
pub(crate) unsafe fn bytes<'a>(
    pointer: *const c_char,
    length: usize,
    name: &str,
) -> Outcome<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    if isize::try_from(length).is_err() {
        return Err(too_long(name, length));
    }
    // SAFETY: see above.
    Ok(unsafe { slice::from_raw_parts(pointer.cast(), length) })
}

/// Like [`bytes`], but null is `None`.
///
/// # Safety
/// See [`bytes`].
#[inline]
pub(crate) unsafe fn optional_bytes<'a>(
    pointer: *const c_char,
    length: usize,
    name: &str,
) -> Outcome<Option<&'a [u8]>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: see above.
    unsafe { bytes(pointer, length, name) }.map(Some)
}

/// Returns a C string.
///
/// # Safety
/// `pointer` is null, or points to a string that ends with a zero byte and lives as long as the
/// result.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Outcome<&'a CStr> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: see above.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// Returns the path that a C string holds.
pub(crate) fn path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// Returns an array.
///
/// # Safety
/// If `length` is not 0, `pointer` is null or points to an array of this length, which lives and
/// does not change as long as the result.
pub(crate) unsafe fn list<'a, T>(pointer: *const T, length: usize, name: &str) -> Outcome<&'a [T]> {
    match length {
        0 => Ok(&[]),
        _ if pointer.is_null() => Err(null(name)),
        // SAFETY: see above.
        _ => Ok(unsafe { slice::from_raw_parts(pointer, length) }),
    }
}

/// Returns the byte strings of two parallel arrays: pointers and lengths.
///
/// # Safety
/// See [`list`] and [`bytes`].
pub(crate) unsafe fn slices<'a>(
    pointers: *const *const c_char,
    lengths: *const usize,
    count: usize,
    name: &str,
) -> Outcome<Vec<&'a [u8]>> {
    // SAFETY: see above.
    let (pointers, lengths) =
        unsafe { (list(pointers, count, name)?, list(lengths, count, name)?) };
    let mut slices = Vec::with_capacity(count);
    for (&at, &length) in pointers.iter().zip(lengths) {
        // SAFETY: see above.
        slices.push(unsafe { bytes(at, length, name)? });
    }
    Ok(slices)
}

/// Returns the concatenation of the byte strings of two parallel arrays.
///
/// # Safety
/// See [`slices`].
pub(crate) unsafe fn part_lists(
    pointers: *const *const c_char,
    lengths: *const usize,
    count: i32,
    name: &str,
) -> Outcome<Vec<u8>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: see above.
    Ok(unsafe { slices(pointers, lengths, count, name)? }.concat())
}

/// Returns the C strings of an array.
///
/// # Safety
/// See [`list`] and [`text`].
pub(crate) unsafe fn texts<'a>(
    pointers: *const *const c_char,
    count: i32,
    name: &str,
) -> Outcome<Vec<&'a CStr>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: see above.
    let pointers = unsafe { list(pointers, count, name)? };
    // SAFETY: see above.
    pointers.iter().map(|&at| unsafe { text(at, name) }).collect()
}

/// Returns the objects of an array of pointers.
///
/// # Safety
/// See [`list`] and [`reference`].
pub(crate) unsafe fn pointers<'a, T>(
    pointers: *const *const T,
    count: usize,
    name: &str,
) -> Outcome<Vec<&'a T>> {
    // SAFETY: see above.
    let pointers = unsafe { list(pointers, count, name)? };
    // SAFETY: see above.
    pointers.iter().map(|&at| unsafe { reference(at, name) }).collect()
}

/// A place in the caller's memory for a value; may be null.
#[derive(Debug)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// `pointer` is null, or a place for a value that lives as long as the result.
    #[inline]
    pub(crate) unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Stores a value, unless the pointer is null.
    #[inline]
    pub(crate) fn set(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the pointer is a place for a value.
            unsafe { self.0.write(value) };
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
}
