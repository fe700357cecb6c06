//! The error type of measurements.

use std::error::Error;

/// An error of an engine or of the operating system. The commands only print its message for the
/// user.
pub type Failure = Box<dyn Error + Send + Sync>;
