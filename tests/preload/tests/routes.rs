//! Which way connections of a program on mTCP go.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use applications::Site;
use applications::site::succeed;
use interop::lab::listening;
use interop::programs;

/// A second interface of ours, behind which the kernel has a route to a network of servers.
#[test]
fn a_route_of_the_kernel_wins_over_the_gateway() {
    let Some(site) = Site::new(&["curl"]) else {
        return;
    };
    let lab = site.lab();
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let peer = lab.peer().name();
    lab.ours().ip(&format!(
        "link add ours1 type veth peer name peer1 netns {peer}"
    ));
    lab.ours().ip("address add 10.78.0.1/24 dev ours1");
    lab.ours().ip("link set ours1 up");
    lab.peer().ip("address add 10.78.0.2/24 dev peer1");
    lab.peer().ip("link set peer1 up");
    lab.peer().ip("address add 10.99.0.1/32 dev lo");
    lab.ours().ip("route add 10.99.0.0/24 via 10.78.0.2");
    let mut server = lab.peer().command(programs::mtcp());
    server.arg("serve").arg(lab.www());
    server.args(["--io", "kernel", "--addr", "10.99.0.1"]);
    let server = listening(server);
    let mut run = lab.ours().command(programs::mtcp());
    // A gateway that is not there.
    run.arg("run")
        .args(lab.link_args())
        .args(["--gateway", "10.77.0.250"]);
    run.args(["--", "curl", "--silent", "--show-error", "--max-time", "15"]);
    run.arg("http://10.99.0.1/small");
    assert_eq!(succeed(run).stdout, "small\n");
    server.stop();
}
