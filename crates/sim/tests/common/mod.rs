//! Two hosts and a good link.
#![allow(dead_code)]

pub mod script;

use std::net::SocketAddr;
use std::time::Duration;

use sim::scenario::{host_config, v4, v6};
use sim::{
    Direction, HostConfig, HostId, LinkConfig, LinkId, ListenPlan, LoadPlan, Network, PipeConfig,
    Plan, settings,
};

pub fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub struct Pair {
    pub net: Network,
    pub a: HostId,
    pub b: HostId,
    pub link: LinkId,
    pub v6: bool,
    ports: u16,
}

impl Pair {
    pub fn new(seed: u64, delay: Duration) -> Self {
        Self::with(seed, delay, |_| {})
    }

    pub fn with(seed: u64, delay: Duration, change: impl Fn(&mut HostConfig)) -> Self {
        let mut net = Network::new(seed);
        if let Some(text) = settings::trace() {
            net.trace_to(text);
        }
        let hosts = [1, 2].map(|index| {
            let mut config = host_config(index);
            change(&mut config);
            net.add_host(config).unwrap()
        });
        let pipe = PipeConfig {
            delay,
            bits_per_second: Some(1_000_000_000),
            ..PipeConfig::default()
        };
        let link = net.link(hosts[0], hosts[1], LinkConfig::both(pipe));
        let [a, b] = hosts;
        Self {
            net,
            a,
            b,
            link,
            v6: false,
            ports: 8000,
        }
    }

    pub fn addr(&self, host: HostId, port: u16) -> SocketAddr {
        let index = host.0 as u8 + 1;
        SocketAddr::new(if self.v6 { v6(index) } else { v4(index) }, port)
    }

    /// One connection from a to b.
    pub fn talk(&mut self, client: Plan, server: Plan) {
        self.ports += 1;
        let remote = self.addr(self.b, self.ports);
        self.net
            .listen(self.b, ListenPlan::new(remote, server))
            .unwrap();
        self.net
            .connect(self.a, Duration::ZERO, remote, client)
            .unwrap();
    }

    /// `total` connections from a to b, so many at a time.
    pub fn load(&mut self, total: u64, concurrent: u64, client: Plan, server: Plan) {
        let remote = self.addr(self.b, 80);
        let listen = ListenPlan {
            backlog: total as u32,
            ..ListenPlan::new(remote, server)
        };
        self.net.listen(self.b, listen).unwrap();
        let load = LoadPlan {
            remote,
            total,
            concurrent,
            gap: ms(20),
            plan: client,
        };
        self.net.load(self.a, load).unwrap();
    }

    pub fn change(&mut self, change: impl Fn(&mut PipeConfig)) {
        for direction in [Direction::There, Direction::Back] {
            let pipe = self.net.pipe_mut(self.link, direction).unwrap();
            let mut config = *pipe.config();
            change(&mut config);
            pipe.set_config(config);
        }
    }

    pub fn set_down(&mut self, down: bool) {
        self.change(|pipe| pipe.down = down);
    }

    /// Runs to the end; nothing may be left.
    #[track_caller]
    pub fn finish(&mut self) {
        let end = self.net.run_idle(Duration::from_secs(24 * 3600));
        let end = end
            .and_then(|()| self.net.check())
            .and_then(|()| self.net.check_empty());
        end.unwrap_or_else(|failure| panic!("{failure}"));
    }
}
