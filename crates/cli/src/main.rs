//! The tailwater program.
fn main() {}
