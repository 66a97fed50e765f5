//! Web servers on mTCP: files compared, connections kept and not kept, alone and together.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::SocketAddr;
use std::time::Instant;

use applications::nginx::Nginx;
use applications::site::spell;
use applications::web::{Web, published, published_with_workers};
use applications::{Family, Process, Site, note};
use interop::crowd;

/// An nginx on the peer's kernel.
fn upstream(site: &Site) -> Process {
    let nginx = Nginx {
        name: "upstream",
        workers: 1,
        port: 81,
        identity: None,
        more: "",
    };
    site.start_peer(site.peer(&nginx.words(site)), nginx.port)
}

/// Files of its own, and those of an nginx on the peer's kernel.
fn nginx(workers: u32) {
    let Some(site) = published_with_workers(&["nginx", "curl", "ab"], workers) else {
        return;
    };
    let _upstream = upstream(&site);
    let front = Nginx {
        name: "front",
        workers,
        port: 80,
        identity: None,
        more: "location /up/ { proxy_pass http://10.77.0.2:81/; }",
    };
    let _front = site.start_ours(site.ours(&front.words(&site)), 80);
    Web::default().exercise(&site);
    let proxied = Web {
        path: "up/",
        families: &[Family::V4],
        load: (1000, 20),
        ..Web::default()
    };
    proxied.exercise(&site);
}

#[test]
fn nginx_with_a_worker() {
    nginx(1);
}

/// Each worker has a stack and a queue. What comes to the wrong one (answers of the upstream
/// server, and of ARP) is handed over.
#[test]
fn nginx_with_two_workers() {
    nginx(2);
}

/// All open at once, each asked for a file of its own three times.
#[test]
fn nginx_with_ten_thousand_connections() {
    let Some(site) = Site::with_workers(&["nginx"], 2) else {
        return;
    };
    crowd::publish(&site.lab().www());
    let front = Nginx {
        name: "front",
        workers: 2,
        port: 80,
        identity: None,
        more: "",
    };
    let _front = site.start_ours(site.ours(&front.words(&site)), 80);
    let peer = site.lab().peer();
    peer.set("net/ipv4/ip_local_port_range", "2000 65000");
    peer.enter(|| {
        let start = Instant::now();
        let mut streams = crowd::open_all(SocketAddr::new(Family::V4.ours(), 80));
        let opened = start.elapsed();
        for round in 0..3 {
            crowd::ask_all(&mut streams, round);
        }
        note(&format!(
            "nginx: {} connections open after {opened:?}, 3 requests on each answered after {:?}",
            crowd::CONNECTIONS,
            start.elapsed()
        ));
    });
}

fn lighttpd(workers: u32) {
    let Some(site) = published_with_workers(&["lighttpd", "curl", "ab"], workers) else {
        return;
    };
    // Without workers the one process serves.
    let children = if workers > 1 { workers } else { 0 };
    let www = spell(&site.lab().www());
    let configuration = format!(
        "server.document-root = \"{www}\"\nserver.port = 80\n\
         server.max-worker = {children}\n\
         server.max-keep-alive-requests = 100000\nserver.bind = \"0.0.0.0\"\n\
         $SERVER[\"socket\"] == \"[::]:80\" {{ server.use-ipv6 = \"enable\" }}\n"
    );
    let file = site.write("lighttpd.conf", &configuration);
    let _server = site.start_ours(site.ours(&format!("lighttpd -D -f {file}")), 80);
    Web::default().exercise(&site);
}

#[test]
fn lighttpd_alone() {
    lighttpd(1);
}

#[test]
fn lighttpd_with_two_workers() {
    lighttpd(2);
}

#[test]
fn apache_with_its_event_module() {
    let Some(site) = published(&["apache2", "curl", "ab"]) else {
        return;
    };
    let (www, files) = (spell(&site.lab().www()), spell(site.lab().files()));
    let modules: String = ["mpm_event", "authz_core", "authz_host"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let configuration = format!(
        "ServerName interop\nServerRoot /etc/apache2\nPidFile {files}/apache.pid\nListen 0.0.0.0:80\nListen [::]:80\n\
         DefaultRuntimeDir {files}\nMutex sem\nErrorLog /dev/stderr\n{modules}\
         User www-data\nGroup www-data\nDocumentRoot {www}\n\
         ServerLimit 1\nStartServers 1\nThreadsPerChild 25\nMaxRequestWorkers 25\n\
         MaxKeepAliveRequests 0\n<Directory />\nRequire all granted\n</Directory>\n"
    );
    site.open_to_all();
    let file = site.write("apache.conf", &configuration);
    let _server = site.start_ours(site.ours(&format!("apache2 -D FOREGROUND -f {file}")), 80);
    Web::default().exercise(&site);
}

/// Master and worker, in an empty root, as a user without rights or new threads.
#[test]
fn haproxy_as_debian_configures_it() {
    let Some(site) = published(&["haproxy", "nginx", "curl", "ab"]) else {
        return;
    };
    let _upstream = upstream(&site);
    let jail = site.file("jail");
    std::fs::create_dir(&jail).unwrap();
    let configuration = format!(
        "global\n chroot {}\n user haproxy\n group haproxy\n maxconn 2000\n\
         defaults\n mode http\n timeout connect 10s\n timeout client 60s\n timeout server 60s\n\
         listen web\n bind :::80 v4v6\n server one 10.77.0.2:81\n",
        spell(&jail)
    );
    let file = site.write("haproxy.conf", &configuration);
    let _server = site.start_ours(site.ours(&format!("haproxy -W -db -f {file}")), 80);
    Web {
        load: (500, 20),
        ..Web::default()
    }
    .exercise(&site);
}

#[test]
fn haproxy_with_two_threads() {
    let Some(site) = published(&["haproxy", "nginx", "curl", "ab"]) else {
        return;
    };
    let _upstream = upstream(&site);
    let configuration = "global\n nbthread 2\n maxconn 2000\n\
         defaults\n timeout connect 10s\n timeout client 60s\n timeout server 60s\n\
         listen plain\n mode tcp\n bind :::80 v4v6\n server one 10.77.0.2:81\n\
         listen web\n mode http\n bind :::82 v4v6\n server one 10.77.0.2:81\n";
    let file = site.write("haproxy.conf", configuration);
    let _server = site.start_ours(site.ours(&format!("haproxy -db -f {file}")), 80);
    for port in [80, 82] {
        let web = Web {
            port,
            load: (1500, 50),
            ..Web::default()
        };
        web.exercise(&site);
    }
}
