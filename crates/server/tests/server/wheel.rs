//! Tests of the server with Apache Iggy's Python client. The client is the Python package
//! `apache-iggy`, which `ci/gate.sh` installs into `target/python`.

use std::path::Path;
use std::process::Stdio;

use tailwater_testkit::filesystem::say;
use tokio::process::Command;

use crate::common::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_python_program() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a directory");
    let python = target.join("python/bin/python");
    let mut has_wheel = Command::new(&python);
    has_wheel.args(["-c", "import apache_iggy"]).stderr(Stdio::null());
    if !has_wheel.status().await.is_ok_and(|status| status.success()) {
        let python = python.display();
        return say(&format!(
            "LEFT OUT: {python} has no wheel apache-iggy (ci/gate.sh installs it)"
        ));
    }
    let scene = Scene::new().await;
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wheel/program.py");
    let address = scene.address().to_string();
    let output = Command::new(&python).arg(program).arg(address).output().await;
    let output = output.expect("a program that runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("done"), "{}: {text}{errors}", output.status);
}
