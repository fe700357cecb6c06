//! Tailwater.
