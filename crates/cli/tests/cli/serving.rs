//! `tailwater serve`: its messages when it starts and ends, and the arguments and directories that
//! it rejects.

use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{program, run_with};

/// Maximum duration of a start or a shutdown.
const TIMEOUT: Duration = Duration::from_secs(60);

fn command(path: &Path, more: &[&str]) -> Command {
    let mut command = program();
    command.arg("serve").arg("--path").arg(path).args(["--address", "127.0.0.1:0"]);
    command.args(["--set", "http.address=127.0.0.1:0"]).args(more);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IGGY_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command
}

fn start(path: &Path, more: &[&str]) -> Child {
    command(path, more).stderr(Stdio::piped()).spawn().expect("the program starts")
}

/// Waits until the server has written the file with its addresses, and returns the address of a
/// transport.
fn address(path: &Path, transport: &str) -> String {
    let file = path.join("runtime/current_config.toml");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        #[expect(clippy::disallowed_methods, reason = "the file is read as other programs do")]
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let section = text.split(&format!("[{transport}]\n")).nth(1).unwrap_or_default();
        if let Some(line) = section.lines().find(|line| line.starts_with("address = ")) {
            return line.trim_start_matches("address = ").trim_matches('"').to_owned();
        }
        assert!(Instant::now() < deadline, "no address of {transport} in '{text}'");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(name).arg(child.id().to_string()).status();
    assert!(status.expect("kill runs").success());
}

/// Waits until the server has ended, and returns its exit code and standard error.
fn end(mut child: Child) -> (Option<i32>, String) {
    let mut text = String::new();
    let stderr = child.stderr.take();
    stderr.expect("a pipe").read_to_string(&mut text).expect("text");
    (child.wait().expect("an end").code(), text)
}

#[test]
fn a_signal_shuts_the_server_down_with_a_report() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    for round in 0..2 {
        let server = start(&path, &["--set", "system.logging.format=json"]);
        let http = address(&path, "http");
        assert!(!http.ends_with(":0"), "{http}");
        // The server accepts connections before it answers requests, so a ping is repeated.
        let deadline = Instant::now() + TIMEOUT;
        let answer = loop {
            let answer = TcpStream::connect(address(&path, "http")).and_then(|mut stream| {
                stream.write_all(b"GET /ping HTTP/1.1\r\nhost: here\r\n\r\n")?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer)?;
                Ok(answer)
            });
            match answer {
                Ok(answer) => break answer,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(answer.ends_with("pong"), "{answer}");
        signal(&server, if round == 0 { "-TERM" } else { "-INT" });
        let (code, complaints) = end(server);
        assert_eq!(code, Some(0), "{complaints}");
        let is_new = complaints.contains("The new user iggy has the password ");
        assert_eq!(is_new, round == 0, "{complaints}");
        let lines: Vec<serde_json::Value> = complaints
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let find = |message: &str| {
            let of_it = |line: &&serde_json::Value| {
                line["message"].as_str().is_some_and(|text| text.starts_with(message))
            };
            lines.iter().find(of_it).unwrap_or_else(|| panic!("no {message}: {complaints}"))
        };
        let started = find("started");
        assert!(started["tcp"].as_str().is_some_and(|text| text.starts_with("127.0.0.1:")));
        for field in ["path", "append_io_mode", "read_io_mode", "tail", "durability"] {
            assert!(started[field].is_string(), "{field}: {started}");
        }
        assert!(find("stopped")["elapsed_ms"].is_u64());
    }
    let logs = path.join("logs").read_dir().expect("files of lines");
    assert_eq!(logs.count(), 1, "a start continues the newest file");
}

#[test]
fn a_configuration_that_is_wrong_is_refused() {
    let wrong = ["serve", "--set", "tcp.address=nowhere"];
    run_with(wrong).ended(2, "tcp.address (from --set tcp.address): 'nowhere' is invalid");
    run_with(["serve", "--set", "tcp.adress=x"]).ended(2, "the nearest one is tcp.address");
    run_with(["serve", "--set", "nothing"]).ended(2, "KEY=VALUE");
    run_with(["serve", "--config", "/nowhere.toml"]).ended(2, "/nowhere.toml: cannot read");
}

#[test]
fn a_directory_of_iggys_is_refused_and_not_written_to() {
    let directory = tempfile::tempdir().expect("a directory");
    #[expect(clippy::disallowed_methods, reason = "another program's directory")]
    std::fs::create_dir_all(directory.path().join("streams/1")).expect("a directory");
    let (code, complaints) = end(start(directory.path(), &[]));
    assert_eq!(code, Some(1), "{complaints}");
    assert!(complaints.contains("contains Apache Iggy's data"), "{complaints}");
    assert_eq!(directory.path().read_dir().expect("a directory").count(), 1);
}

#[test]
fn an_address_that_is_taken_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = taken.local_addr().expect("an address").to_string();
    let server = start(directory.path(), &["--set", &format!("http.address={address}")]);
    let (code, complaints) = end(server);
    assert_eq!(code, Some(1), "{complaints}");
    assert!(complaints.contains(&format!("http.address: cannot listen on {address}")));
}

/// Creates a pipe and fills it, so that the next write to it blocks.
fn full_pipe() -> (PipeReader, PipeWriter) {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    let (reader, mut writer) = pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("flags");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    fcntl_setfl(&writer, flags).expect("flags");
    (reader, writer)
}

/// Waits until a process has ended, and returns its exit code. If it does not end within
/// [`TIMEOUT`], kills it and panics.
fn end_in_time(mut child: Child) -> Option<i32> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().expect("a status") {
            return status.code();
        }
        if Instant::now() > deadline {
            // The process did not end in time, so it is killed.
            let _ = child.kill();
            panic!("the server hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks that a signal ends the server even if nobody reads its standard error and the pipe is
/// full.
#[test]
fn signals_end_a_server_whose_standard_error_is_full() {
    for signals in [1, 2] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("data");
        let (_reader, writer) = full_pipe();
        let mut command = command(&path, &["--with-default-root-credentials"]);
        let server = command.stderr(writer).spawn().expect("the program starts");
        address(&path, "tcp");
        for _ in 0..signals {
            signal(&server, "-TERM");
            // Without the pause, the second signal might arrive while the first is pending, and be
            // merged with it.
            std::thread::sleep(Duration::from_millis(300));
        }
        let code = end_in_time(server).expect("an exit code");
        assert_eq!(code, if signals == 1 { 0 } else { 1 });
    }
}

#[test]
fn an_invalid_log_level_creates_no_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let (code, complaints) = end(start(&path, &["--set", "system.logging.level=a=b=c"]));
    assert_eq!(code, Some(2), "{complaints}");
    assert!(complaints.contains("'a=b=c' is invalid: expected off, error"), "{complaints}");
    assert!(!path.exists(), "nothing is created before the level is checked");
}
