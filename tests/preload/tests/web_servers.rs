//! Web servers on mTCP: files compared, connections kept and not kept, alone and together.

use applications::Site;
use applications::site::spell;
use applications::web::{Web, publish, publish_large};

#[test]
fn lighttpd() {
    let Some(site) = Site::new(&["lighttpd", "curl", "ab"]) else {
        return;
    };
    publish(&site);
    publish_large(&site);
    let www = spell(&site.lab().www());
    let configuration = format!(
        "server.document-root = \"{www}\"\nserver.port = 80\nserver.bind = \"0.0.0.0\"\n\
         server.max-keep-alive-requests = 100000\n\
         $SERVER[\"socket\"] == \"[::]:80\" {{ server.use-ipv6 = \"enable\" }}\n"
    );
    let file = site.write("lighttpd.conf", &configuration);
    let _server = site.start_ours(site.ours(&format!("lighttpd -D -f {file}")), 80);
    Web::default().exercise(&site);
}
