//! Calls functions of the C interface at random, within their contract: the calls that the oracle
//! of `tailwater-capi` draws. Sanitizers and assertions find what is wrong; so do panics, whose
//! errors make the calls abort.
#![no_main]
#![expect(unsafe_code, reason = "calls functions in C")]

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use tailwater_capi as _;
use tailwater_fuzz as _;

/// Maximum number of calls, so that an input takes well below a second.
const CALLS: usize = 100;

unsafe extern "C" {
    fn run_alone(
        numbers: *const [c_int; 8],
        calls: *const [c_int; 5],
        count: usize,
        directory: *const c_char,
    );
}

fuzz_target!(|bytes: &[u8]| {
    let Some((numbers, rest)) = bytes.split_first_chunk::<16>() else { return };
    let number = |at: usize| c_int::from(numbers[2 * at]) * 4 + c_int::from(numbers[2 * at + 1]) % 4;
    let numbers: [c_int; 8] = std::array::from_fn(number);
    let calls: Vec<[c_int; 5]> = rest
        .chunks_exact(5)
        .take(CALLS)
        .map(|call| std::array::from_fn(|at| match at {
            0 => c_int::from(call[0]),
            _ => c_int::from(call[at]) % 40,
        }))
        .collect();
    // Memory, if there is a filesystem in it.
    let parent = Path::new("/dev/shm");
    let parent = if parent.is_dir() { parent.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::tempdir_in(parent).expect("a directory");
    let path = CString::new(directory.path().as_os_str().as_bytes()).expect("a path");
    // SAFETY: the arguments are arrays of these lengths, and a C string.
    unsafe { run_alone(&numbers, calls.as_ptr(), calls.len(), path.as_ptr()) };
});
