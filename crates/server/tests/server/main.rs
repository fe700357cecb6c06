//! The server as Apache Iggy's Rust client sees it, and as clients see it that misbehave.

mod bodies;
mod clients;
mod common;
mod encrypted;
mod groups;
mod killed;
mod messages;
mod misbehaving;
mod objects;
mod permissions;
mod repeated;
mod restart;
mod wheel;
