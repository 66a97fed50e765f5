//! A client that dies and starts again, with another secret and so other sequence numbers and
//! timestamps, against a server that holds TIME_WAIT for every port that it will use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::time::Duration;

use sim::scenario::{host_config, v4};
use sim::{
    Ending, HostConfig, HostId, LinkConfig, LinkId, ListenPlan, LoadPlan, Network, PipeConfig,
    Plan, settings,
};

const PORTS: u16 = 200;

fn client(secret: u8) -> HostConfig {
    let mut config = host_config(1);
    config.stack.ephemeral = (40_000, 40_000 + PORTS - 1);
    config.stack.secret = [secret; 32];
    config
}

fn load(remote: SocketAddr, total: u64, concurrent: u64) -> LoadPlan {
    LoadPlan {
        remote,
        total,
        concurrent,
        gap: Duration::from_millis(1),
        // The server ends first, and keeps the TIME_WAIT.
        plan: Plan {
            send: (1, 2000),
            ..Plan::default().ends(Ending::AfterEof)
        },
    }
}

fn office(secret: u8) -> (Network, [HostId; 3], [LinkId; 2]) {
    let mut net = Network::new(secret.into());
    net.set_reproduce("SIM_TRACE=1 cargo test -p sim --test restart");
    if let Some(text) = settings::trace() {
        net.trace_to(text);
    }
    let switch = net.add_switch();
    let server = net.add_host(host_config(2)).unwrap();
    let (old, new) = (
        net.add_host(client(7)).unwrap(),
        net.add_host(client(secret)).unwrap(),
    );
    let pipe = PipeConfig {
        delay: Duration::from_millis(1),
        ..PipeConfig::default()
    };
    net.link(server, switch, LinkConfig::both(pipe));
    let links = [old, new].map(|host| {
        let down = PipeConfig {
            down: host == new,
            ..pipe
        };
        net.link(host, switch, LinkConfig::both(down))
    });
    (net, [server, old, new], links)
}

fn swap(net: &mut Network, [old, new]: [LinkId; 2]) {
    for (link, down) in [(old, true), (new, false)] {
        let mut config = *net.pipe_mut(link, sim::Direction::There).unwrap().config();
        config.down = down;
        net.set_link(link, LinkConfig::both(config));
    }
}

#[test]
fn a_restarted_client_is_served_at_once() {
    for secret in [1, 2, 3] {
        let (mut net, [server, old, new], links) = office(secret);
        let remote = SocketAddr::new(v4(2), 80);
        net.listen(
            server,
            ListenPlan::new(
                remote,
                Plan {
                    send: (1, 2000),
                    ..Plan::default()
                },
            ),
        )
        .unwrap();
        net.load(old, load(remote, PORTS.into(), 10)).unwrap();
        net.run_until(Duration::from_secs(20), |net| {
            net.host(old).unwrap().apps().loads_done()
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
        net.run_for(Duration::from_millis(100)).unwrap();
        let waiting = net.host(server).unwrap().stack().usage().time_wait;
        assert!(waiting > u32::from(PORTS) * 9 / 10, "{waiting}");
        swap(&mut net, links);
        let started = net.now();
        net.load(new, load(remote, 100, 10)).unwrap();
        net.run_until(Duration::from_secs(300), |net| {
            net.host(new).unwrap().apps().loads_done()
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
        let took = net.now().since(started);
        let records = net.host(new).unwrap().apps().records();
        assert!(
            records.iter().all(|record| record.is_clean()),
            "{records:?}"
        );
        assert!(
            took < Duration::from_secs(3),
            "100 connections took {took:?}"
        );
    }
}
