//! Several hosts on a switch: each talks to each other, in both families, over links of different
//! quality; one is unplugged and comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::time::Duration;

use sim::scenario::{host_config, v4, v6};
use sim::{
    Expect, HostId, LinkConfig, LinkId, ListenPlan, Network, PipeConfig, Plan, Record, settings,
};

const HOSTS: u8 = 5;

fn office(seed: u64) -> (Network, Vec<LinkId>) {
    let mut net = Network::new(seed);
    net.set_reproduce("SIM_TRACE=1 cargo test -p sim --test switched");
    if let Some(text) = settings::trace() {
        net.trace_to(text);
    }
    let switch = net.add_switch();
    let links = (1..=HOSTS).map(|index| {
        let host = net.add_host(host_config(index)).unwrap();
        let spec = format!("loss={}%,reorder=1%,dup=1%,jitter=1ms", index - 1);
        let pipe = PipeConfig {
            impairments: spec.parse().unwrap(),
            bits_per_second: Some(100_000_000),
            queue_bytes: 64 << 10,
            delay: Duration::from_micros(100),
            ..PipeConfig::default()
        };
        net.link(host, switch, LinkConfig::both(pipe))
    });
    let links = links.collect();
    (net, links)
}

fn listen(net: &mut Network) {
    for host in 0..HOSTS {
        for addr in [v4(host + 1), v6(host + 1)] {
            let plan = ListenPlan::new(SocketAddr::new(addr, 7), Plan::echo());
            net.listen(HostId(host.into()), plan).unwrap();
        }
    }
}

fn everyone_to_everyone(net: &mut Network) -> usize {
    let client = Plan {
        expect: Expect::Echo,
        tries: 100,
        linger: true,
        ..Plan::default().sends(60_000)
    };
    let mut count = 0;
    for from in 0..HOSTS {
        for to in (0..HOSTS).filter(|to| *to != from) {
            for addr in [v4(to + 1), v6(to + 1)] {
                let remote = SocketAddr::new(addr, 7);
                net.connect(
                    HostId(from.into()),
                    Duration::from_millis(5),
                    remote,
                    client,
                )
                .unwrap();
                count += 1;
            }
        }
    }
    count
}

#[test]
fn everyone_talks_to_everyone() {
    for seed in 0..3 {
        let (mut net, links) = office(seed);
        listen(&mut net);
        let count = everyone_to_everyone(&mut net);
        net.run_for(Duration::from_millis(50)).unwrap();
        // One is unplugged for a while.
        let pulled = links[seed as usize];
        let mut config = LinkConfig::both(
            *net.pipe_mut(pulled, sim::Direction::There)
                .unwrap()
                .config(),
        );
        config.there.down = true;
        config.back.down = true;
        net.set_link(pulled, config);
        net.run_for(Duration::from_secs(5)).unwrap();
        config.there.down = false;
        config.back.down = false;
        net.set_link(pulled, config);
        let end = net
            .run_idle(Duration::from_secs(4 * 3600))
            .and_then(|()| net.check())
            .and_then(|()| net.check_empty());
        end.unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(net.check_pairs().unwrap(), count);
        let records: Vec<&Record> = net
            .hosts()
            .iter()
            .flat_map(|host| host.apps().records())
            .collect();
        let clean = records
            .iter()
            .filter(|record| record.is_clean() && record.received == 60_000)
            .count();
        assert_eq!((clean, records.len()), (2 * count, 2 * count));
    }
}
