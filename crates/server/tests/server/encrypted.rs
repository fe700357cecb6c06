//! Tests of encrypted connections with Iggy's Rust client.

use std::path::Path;
use std::time::Duration;

use iggy::prelude::*;

use crate::common::{Scene, create_topic, numbered, poll, send};

/// Creates a certificate for `localhost`, and writes the certificate and its key to PEM files.
fn certify(directory: &Path) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        #[expect(clippy::disallowed_methods, reason = "not a file of the log's")]
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    (write("cert.pem", &made.cert.pem()), write("key.pem", &made.signing_key.serialize_pem()))
}

fn client_of(scene: &Scene, ca_file: &str) -> IggyClient {
    let port = scene.address().port();
    let url = format!(
        "iggy+tcp://iggy:iggy@127.0.0.1:{port}?tls=true&tls_domain=localhost&\
         tls_ca_file={ca_file}&reconnection_retries=1"
    );
    IggyClient::from_connection_string(&url).expect("a client")
}

async fn connects(client: &IggyClient) -> bool {
    let connected = tokio::time::timeout(Duration::from_secs(10), client.connect()).await;
    matches!(connected, Ok(Ok(())))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_trusts_the_certificate_is_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = certify(directory.path());
    let scene = Scene::with(&[
        ("tcp.tls.enabled", "true"),
        ("tcp.tls.self_signed", "false"),
        ("tcp.tls.cert_file", &certificate),
        ("tcp.tls.key_file", &key),
    ])
    .await;
    let client = client_of(&scene, &certificate);
    client.connect().await.expect("a connection");
    create_topic(&client, 1).await;
    let sent = numbered("m", 20);
    send(&client, 0, &sent).await;
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await, sent);

    // The server must refuse a client that trusts only another certificate, and a client without
    // encryption.
    let other = tempfile::tempdir().expect("a directory");
    let (other, _) = certify(other.path());
    assert!(!connects(&client_of(&scene, &other)).await);
    let plain = format!("iggy+tcp://iggy:iggy@{}?reconnection_retries=1", scene.address());
    let plain = IggyClient::from_connection_string(&plain).expect("a client");
    assert!(!connects(&plain).await);
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await, sent);
}
