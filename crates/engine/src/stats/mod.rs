//! What an operator can know of a database.

mod info_log;

pub(crate) use info_log::InfoLog;
