//! nginx, on either side.

use crate::site::{Site, spell};
use crate::tls::Identity;

/// What an nginx shall do.
#[derive(Clone, Debug)]
pub struct Nginx<'a> {
    /// Part of its files' names.
    pub name: &'a str,
    /// Worker processes.
    pub workers: u32,
    /// Where it listens, both families.
    pub port: u16,
    /// With TLS and HTTP/2 on the next port, if it has one.
    pub identity: Option<&'a Identity>,
    /// More for its server block.
    pub more: &'a str,
}

impl Nginx<'_> {
    /// Its command line.
    pub fn words(&self, site: &Site) -> String {
        let Self { name, .. } = self;
        let file = site.write(&format!("{name}.conf"), &self.configuration(site));
        format!("nginx -e stderr -c {file}")
    }

    fn configuration(&self, site: &Site) -> String {
        let Self {
            name,
            workers,
            port,
            identity,
            more,
        } = self;
        let scratch = spell(&site.file(name));
        let www = spell(&site.lab().www());
        let secure = identity.map_or(String::new(), |identity| {
            let port = port + 1;
            format!(
                "listen {port} ssl http2; listen [::]:{port} ssl http2;\n\
                 ssl_certificate {}; ssl_certificate_key {};",
                identity.certificate, identity.key
            )
        });
        let spaces: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|space| format!("{space}_temp_path {scratch}-{space};\n"))
            .concat();
        format!(
            "daemon off; user root; worker_processes {workers}; pid {scratch}.pid;\n\
             events {{ worker_connections 12000; }}\n\
             http {{\n{spaces}access_log off; sendfile on; tcp_nopush on; keepalive_timeout 300; client_header_timeout 300;\n\
             keepalive_requests 100000;\n\
             server {{ listen {port} backlog=4096; listen [::]:{port}; {secure}\n\
             root {www}; client_max_body_size 1g; {more} }} }}\n"
        )
    }
}
