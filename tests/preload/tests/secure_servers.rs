//! TLS on mTCP.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use applications::web::{Web, published};
use applications::{Family, tls};

#[test]
fn openssl_s_server() {
    let Some(site) = published(&["openssl", "curl"]) else {
        return;
    };
    let identity = tls::identity(&site);
    let words = format!(
        "openssl s_server -quiet -WWW -accept 443 -cert {} -key {}",
        identity.certificate, identity.key
    );
    let mut command = site.ours(&words);
    command.current_dir(site.lab().www());
    let _server = site.start_ours(command, 443);
    let web = Web {
        scheme: "https",
        port: 443,
        ..Web::default()
    };
    for family in Family::BOTH {
        for name in ["small", "medium", "large"] {
            web.fetch(&site, family, name);
        }
    }
}
