//! The macro that declares the functions of the interface, and the code around each call.

use std::any::Any;
use std::ffi::{c_char, c_int, c_uchar, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::failure::{Class, Failure, Outcome, replace_error};
use super::live;

/// Declares a function of the interface. The body returns an [`Outcome`].
///
/// | parameter | in C | in the body |
/// |---|---|---|
/// | `a: &T` | `const T*` | `&T` |
/// | `a: shared T` | `T*` | `&T` |
/// | `a: &mut T` | `T*` | `&mut T` |
/// | `a: maybe T` | `T*` | `Option<&T>`, `None` for null |
/// | `a: maybe_const T` | `const T*` | `Option<&T>`, `None` for null |
/// | `a: own T` | `T*` | `Option<Box<T>>`, `None` for null |
/// | `a: own_const T` | `const T*` | `Option<Box<T>>`, `None` for null |
/// | `a: out T` | `T*` | [`Out`](super::Out) |
/// | `a: bytes[n]` | `const char*`, `size_t n` | `&[u8]` |
/// | `a: option[n]` | `const char*`, `size_t n` | `Option<&[u8]>`, `None` for null |
/// | `a: text` | `const char*` | `&CStr` |
/// | `errptr` | `char**` | nothing: receives the failure |
/// | `a: T` | `T` | `T` |
///
/// A null pointer that is not permitted is an invalid argument. A failure of a function without
/// `errptr` is not reported; the function returns 0 or null.
macro_rules! entry {
    (
        $(#[$meta:meta])*
        fn $name:ident ($($parameters:tt)*) -> $return:ty $body:block
    ) => {
        $crate::boundary::entry_with! {
            [$(#[$meta])*] $name [$return] $body [] [] [std::ptr::null_mut()] $($parameters)*,
        }
    };
    ($(#[$meta:meta])* fn $name:ident ($($parameters:tt)*) $body:block) => {
        $crate::boundary::entry_with! {
            [$(#[$meta])*] $name [()] $body [] [] [std::ptr::null_mut()] $($parameters)*,
        }
    };
}

/// Converts the parameters of [`entry!`], one at a time.
macro_rules! entry_with {
    // The end of the parameters.
    (
        [$($meta:tt)*] $name:ident [$return:ty] $body:block
        [$($c:tt)*] [$($let:tt)*] [$errptr:expr] $(,)*
    ) => {
        $($meta)*
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($c)*) -> $return {
            let call = || -> $crate::boundary::Outcome<$return> {
                $($let)*
                $body
            };
            // SAFETY: `errptr` is null, or the caller's pointer to a string or to null.
            unsafe { $crate::boundary::enter(stringify!($name), $errptr, call) }
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: &mut $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *mut $type,]
            [$($let)*
                // SAFETY: the caller passes an object that no other thread uses during the call.
                let $name = unsafe { $crate::boundary::reference_mut($name, stringify!($name))? };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: &$type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *const $type,]
            [$($let)*
                // SAFETY: the caller passes an object that lives during the call.
                let $name = unsafe { $crate::boundary::reference($name, stringify!($name))? };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: shared $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *mut $type,]
            [$($let)*
                // SAFETY: the caller passes an object that lives during the call.
                let $name = unsafe {
                    $crate::boundary::reference($name.cast_const(), stringify!($name))?
                };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: maybe $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *mut $type,]
            [$($let)*
                // SAFETY: the caller passes null, or an object that lives during the call.
                let $name = unsafe {
                    $crate::boundary::optional($name.cast_const(), stringify!($name))
                };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: maybe_const $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *const $type,]
            [$($let)*
                // SAFETY: the caller passes null, or an object that lives during the call.
                let $name = unsafe { $crate::boundary::optional($name, stringify!($name)) };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: own $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *mut $type,]
            [$($let)*
                // SAFETY: the caller passes null, or an object that it got from `give` and no
                // longer uses.
                let $name: Option<Box<$type>> = unsafe {
                    $crate::boundary::owned($name, stringify!($name))
                };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: own_const $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *const $type,]
            [$($let)*
                // SAFETY: the caller passes null, or an object that it got from `give` and no
                // longer uses.
                let $name = unsafe {
                    $crate::boundary::owned::<$type>($name.cast_mut(), stringify!($name))
                };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: out $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *mut $type,]
            [$($let)*
                // SAFETY: the caller passes null, or a place for a value.
                let $name = unsafe { $crate::boundary::Out::new($name) };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: bytes[$length:ident], $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *const std::ffi::c_char, $length: usize,]
            [$($let)*
                // SAFETY: the caller passes a pointer to this number of bytes.
                let $name = unsafe {
                    $crate::boundary::bytes($name, $length, stringify!($name))?
                };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: option[$length:ident], $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *const std::ffi::c_char, $length: usize,]
            [$($let)*
                // SAFETY: the caller passes null, or a pointer to this number of bytes.
                let $name = unsafe {
                    $crate::boundary::optional_bytes($name, $length, stringify!($name))?
                };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: text, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b
            [$($c)* $name: *const std::ffi::c_char,]
            [$($let)*
                // SAFETY: the caller passes a string that ends with a zero byte.
                let $name = unsafe { $crate::boundary::text($name, stringify!($name))? };
            ]
            $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $name:ident: $type:ty, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b [$($c)* $name: $type,] [$($let)*] $e $($rest)*
        }
    };
    (
        $m:tt $n:ident $r:tt $b:block [$($c:tt)*] [$($let:tt)*] $e:tt
        $errptr:ident, $($rest:tt)*
    ) => {
        $crate::boundary::entry_with! {
            $m $n $r $b [$($c)* $errptr: *mut *mut std::ffi::c_char,] [$($let)*] [$errptr] $($rest)*
        }
    };
}

pub(crate) use {entry, entry_with};

/// A type of results, and its value after a failure.
pub(crate) trait Returned {
    const AFTER_FAILURE: Self;
}

macro_rules! returned {
    ($($type:ty = $value:expr),* $(,)?) => {
        $(impl Returned for $type {
            const AFTER_FAILURE: Self = $value;
        })*
    };
}

returned! {
    () = (), bool = false, c_uchar = 0, u16 = 0, c_int = 0, c_uint = 0, i64 = 0, u64 = 0, usize = 0, f64 = 0.0,
}

impl<T> Returned for *mut T {
    const AFTER_FAILURE: Self = std::ptr::null_mut();
}

impl<T> Returned for *const T {
    const AFTER_FAILURE: Self = std::ptr::null();
}

/// Gives an object to the caller, who returns it to a function with an `own` parameter.
#[inline]
pub(crate) fn give<T>(object: T) -> *mut T {
    give_box(Box::new(object))
}

/// Like [`give`], for an object that is in its place already.
#[inline]
pub(crate) fn give_box<T>(object: Box<T>) -> *mut T {
    let pointer = Box::into_raw(object);
    live::add(pointer);
    pointer
}

/// Runs the body of the function `name`. A failure or panic replaces the error in `errptr`.
///
/// # Safety
/// `errptr` is null, or points to null or to a string from `malloc`.
#[inline]
pub(crate) unsafe fn enter<T: Returned>(
    name: &str,
    errptr: *mut *mut c_char,
    call: impl FnOnce() -> Outcome<T>,
) -> T {
    // Unwind safe: after a panic, an object is as consistent as after a failure.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        // SAFETY: see above.
        Ok(Err(failure)) => unsafe { fail(errptr, failure) },
        // SAFETY: see above.
        Err(payload) => unsafe { fail(errptr, panicked(name, payload)) },
    }
    T::AFTER_FAILURE
}

/// Reports a failure. Takes it by value and is not inlined, so that a call without a failure saves
/// no registers for it.
///
/// # Safety
/// See [`enter`].
#[cold]
#[inline(never)]
unsafe fn fail(errptr: *mut *mut c_char, failure: Failure) {
    // SAFETY: see above.
    unsafe { replace_error(errptr, &failure) };
}

#[cold]
#[inline(never)]
fn panicked(name: &str, payload: Box<dyn Any + Send>) -> Failure {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("unknown cause");
    Failure::new(Class::Aborted, format!("{name} panicked: {text}"))
}
