//! The reasons why a measurement ends early.

use std::error::Error;

/// An error of an engine or of the system; its text is for the user.
pub type Failure = Box<dyn Error + Send + Sync>;
