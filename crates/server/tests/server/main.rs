//! Tests of the server with Apache Iggy's Rust client, and with misbehaving clients.

mod bodies;
mod clients;
mod common;
mod descriptors;
mod encrypted;
mod fairness;
mod groups;
mod killed;
mod locks;
mod messages;
mod misbehaving;
mod objects;
mod permissions;
mod places;
mod repeated;
mod restart;
mod scenarios;
mod wheel;
