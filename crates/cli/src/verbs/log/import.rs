//! `tailwater log import`: fills a log from a running server.

use serde_json::json;
use tailwater_server::import::{Imported, Source, import};

use crate::arguments::LogImportArguments;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::text::counted;

/// Environment variable that holds the password if `--password` is not given.
const PASSWORD: &str = "IGGY_PASSWORD";

pub(crate) fn run(arguments: &LogImportArguments, output: &mut Output) -> Result<Outcome> {
    let password = arguments.password.clone().or_else(|| std::env::var(PASSWORD).ok());
    let password = password.ok_or_else(|| {
        Failure::Usage(format!("no password: use --password or the variable {PASSWORD}"))
    })?;
    let source =
        Source { address: arguments.from.clone(), username: arguments.username.clone(), password };
    let progress = Progress::counting("messages");
    let (stream, directory) = (arguments.stream.as_deref(), &arguments.directory);
    let imported = import(&source, stream, directory, &mut |messages| progress.reach(messages));
    drop(progress);
    let Imported { partitions, messages, bytes, missed } =
        imported.map_err(|error| Failure::Input(format!("import: {error}")))?;
    if output.is_json() {
        output.json_document(&json!({
            "partitions": partitions,
            "messages": messages,
            "bytes": bytes,
            "missed": missed,
        }))?;
        return Ok(Outcome::Well);
    }
    output.line(format_args!(
        "{} of {} imported; {bytes} bytes",
        counted(messages, "message", "messages"),
        counted(partitions, "partition", "partitions"),
    ))?;
    if missed > 0 {
        output.line(format_args!(
            "{} were removed by the server before they could be imported",
            counted(missed, "message", "messages"),
        ))?;
    }
    Ok(Outcome::Well)
}
