//! Block caches and row caches that databases use and share.
#![cfg(not(loom))]

mod resizing;
mod row_cache;
mod row_cache_lockstep;
mod sharing;
mod strict;
mod support;
