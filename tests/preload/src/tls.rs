//! A certificate for servers here.

use std::process::Command;

use crate::site::{Site, spell, succeed};

/// A key and a certificate for all names here, as words for a configuration.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate's file.
    pub certificate: String,
    /// The private key's file.
    pub key: String,
}

/// Makes one.
pub fn identity(site: &Site) -> Identity {
    let (certificate, key) = (site.file("certificate.pem"), site.file("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt"]);
    openssl.args(["ec_paramgen_curve:prime256v1", "-days", "2", "-subj"]);
    openssl.args(["/CN=interop", "-keyout"]).arg(&key);
    openssl.arg("-out").arg(&certificate);
    succeed(openssl);
    Identity {
        certificate: spell(&certificate),
        key: spell(&key),
    }
}
