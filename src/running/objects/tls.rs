//! Whom a secure connection trusts: the system's certificates, and those that the user names.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// Made when the first secure connection is: reading the system's certificates takes a moment.
#[derive(Debug, Default)]
pub(super) struct Trust {
    ca_file: Option<PathBuf>,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Trust {
    /// The system's certificates and those of this file.
    pub(super) fn new(ca_file: Option<PathBuf>) -> Trust {
        Trust { ca_file, config: OnceLock::new() }
    }

    /// TLS configuration of a connection.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.config.get_or_init(|| self.make()).clone()
    }

    fn make(&self) -> Result<Arc<ClientConfig>, String> {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if let Some(file) = &self.ca_file {
            let wrong = |what: String| format!("--object-ca-file {}: {what}", file.display());
            let read =
                CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
            let mut count = 0;
            for certificate in read {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
                count += 1;
            }
            if count == 0 {
                return Err(wrong("it holds no certificate in PEM form".to_owned()));
            }
        }
        if roots.is_empty() {
            let why = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
            return Err(format!(
                "this system has no certificates to trust{why}: install ca-certificates, or give \
                 --object-ca-file"
            ));
        }
        // The default provider is a process-wide setting; this one is named.
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}
