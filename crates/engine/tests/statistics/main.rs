//! A database's statistics: tickers, histograms, properties, live files and sizes.
#![cfg(not(loom))]

mod dumps;
mod golden;
mod iterators;
mod live;
mod reads;
mod support;
mod writes;
