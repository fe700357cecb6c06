//! Encryption of connections: loads or generates the server's certificate.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;
use crate::error::ServerError;

/// Creates the acceptor of encrypted connections. `section` is the section of the configuration,
/// for the error.
///
/// # Errors
/// A file that cannot be read, or an invalid certificate; the message names the key and the file.
pub(crate) fn acceptor(section: &str, tls: &Tls) -> Result<TlsAcceptor, ServerError> {
    let (certificates, key) = match tls {
        Tls::SelfSigned => self_signed()?,
        Tls::Files { certificate, key } => {
            let refuse = |name: &str, path: &Path, problem: &dyn fmt::Display| {
                refuse(format!("{section}.{name}: {}: {problem}", path.display()))
            };
            let certificates = CertificateDer::pem_file_iter(certificate)
                .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
                .map_err(|error| refuse("cert_file", certificate, &error))?;
            if certificates.is_empty() {
                return Err(refuse("cert_file", certificate, &"it contains no certificate"));
            }
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| refuse("key_file", key, &error))?;
            (certificates, key)
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| refuse(format!("{section}: certificate and key: {error}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn self_signed() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ServerError> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| refuse(format!("self-signed certificate: {error}")))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

fn refuse(message: String) -> ServerError {
    ServerError::Tls(message)
}
