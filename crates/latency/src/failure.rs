//! The error type of measurements.

use std::error::Error;

/// An error from an engine or the system; its text is for the user.
pub type Failure = Box<dyn Error + Send + Sync>;
