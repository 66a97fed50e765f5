//! New control blocks.

use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::cc::{Algorithm, Models, NewReno};
use crate::command::Options;
use crate::config::Config;
use crate::event::Ready;
use crate::flow::FlowKey;
use crate::id::Token;
use crate::info::State;
use crate::ip::Path;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::ecn::EcnState;
use crate::tcp::flags::Flags;
use crate::tcp::loss::{self, Bounds};
use crate::tcp::option_sets::SetId;
use crate::tcp::options::{Agreed, advertised_mss, effective_mss, peer_mss, window_scale_for};
use crate::tcp::path::PathSearch;
use crate::tcp::receive;
use crate::tcp::send::{self, send_limit};
use crate::tcp::setup::OpenState;
use crate::tcp::setup::isn::Start;
use crate::tcp::statistics::Statistics;
use crate::tcp::target::marked;
use crate::tcp::tcb::{Cold, Hot};
use crate::tcp::teardown::Challenges;
use wire::tcp::{TcpFlags, TcpOptions};

/// What a connection is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening<'a> {
    pub key: &'a FlowKey,
    pub path: &'a Path,
    pub options: SetId,
    pub start: Start,
    pub token: Token,
}

/// The part of a control block that is always needed, before any segment was sent or received.
#[inline(always)]
pub(crate) fn hot(
    config: &Config,
    rto: Bounds,
    opening: &Opening<'_>,
    options: &Options,
    now: Instant,
) -> Hot {
    let Start { iss, ts_offset } = opening.start;
    let mut flags = Flags::empty();
    flags.set(Flags::NODELAY, options.nodelay);
    flags.set(Flags::COLD_TIMERS, options.has_cold_timers());
    Hot {
        wheel_at: Instant::FAR,
        loss: loss::Hot::new(iss, rto),
        snd: send::Hot::new(iss),
        rcv: receive::Hot::new(
            initial_receive_window(config, options),
            quick_acks(config, options),
        ),
        ts_recent: 0,
        ts_offset,
        last_received: now.as_millis() as u32,
        flags,
        state: State::Closed,
        snd_wscale: 0,
        rcv_wscale: 0,
        port: opening.path.port,
        retries: 0,
        ready: Ready::empty(),
        predicted: TcpFlags::ACK,
    }
}

/// The MSS before the peer's SYN says one.
pub(crate) fn unheard_mss(config: &Config, path: &Path, options: &Options) -> u16 {
    let is_ipv4 = path.src.is_ipv4();
    let peer = peer_mss(&TcpOptions::default(), is_ipv4);
    effective_mss(config, peer, path.mtu, is_ipv4, false, options)
}

fn quick_acks(config: &Config, options: &Options) -> u8 {
    if options.delay_acks {
        0
    } else {
        config.quick_acks
    }
}

/// The rest of it, to its place.
#[inline(always)]
pub(crate) fn renew(
    cold: &mut Cold,
    config: &Config,
    opening: &Opening<'_>,
    options: &Options,
    now: Instant,
    models: &mut Models,
) {
    let kind = options.congestion.unwrap_or(config.congestion);
    let none = Algorithm::NewReno(NewReno::default());
    let loss = loss::Cold::new(opening.start.iss, none, options.max_pacing_rate);
    *cold = cold_with(config, opening, options, now, loss);
    cold.loss
        .congestion
        .begin(kind, opening.start.iss.0, models);
    cold.ecn = EcnState::new(config, cold.loss.congestion.wants_ecn());
}

/// Both parts of a control block that no connection has.
pub(crate) fn blank(config: &Config) -> (Hot, Cold) {
    let opening = Opening {
        key: &FlowKey::NONE,
        path: &Path::NOWHERE,
        options: SetId::NONE,
        start: Start {
            iss: SeqNumber(0),
            ts_offset: 0,
        },
        token: Token::NONE,
    };
    let (options, now) = (Options::default(), Instant::ZERO);
    let congestion = Algorithm::NewReno(NewReno::default());
    let loss = loss::Cold::new(opening.start.iss, congestion, None);
    (
        hot(config, Bounds::new(config), &opening, &options, now),
        cold_with(config, &opening, &options, now, loss),
    )
}

/// The rest of a control block, with a loss part that there is. Inlined, so that it is written
/// where it belongs.
#[inline(always)]
pub(crate) fn cold_with(
    config: &Config,
    opening: &Opening<'_>,
    options: &Options,
    now: Instant,
    loss: loss::Cold,
) -> Cold {
    let is_ipv4 = opening.path.src.is_ipv4();
    Cold {
        path: marked(opening.path, options),
        snd: send::Cold::new(now, opening.start.iss, send_limit(config, options)),
        ecn: EcnState::new(config, loss.congestion.wants_ecn()),
        loss,
        read_shut: false,
        fin_wait_2_at: Instant::FAR,
        iss: opening.start.iss,
        irs: SeqNumber(0),
        rcv: receive::Cold::new(now),
        search: PathSearch::new(opening.path.mtu),
        options: opening.options,
        statistics: Statistics::new(now),
        token: opening.token,
        listener: 0,
        error: None,
        soft_error: None,
        peer_mss: peer_mss(&TcpOptions::default(), is_ipv4),
        local_mss: advertised_mss(config, opening.path.mtu, is_ipv4, options),
        challenges: Challenges::default(),
        open: OpenState::new(window_scale_for(config.max_buffer)),
        keepalive_probes: 0,
        keepalive_at: Instant::FAR,
    }
}

/// The peer's SYN was received: its sequence number and what both agreed on.
/// RFC 7323 §2.2-3, §2.2-4.
pub(crate) fn synchronize(
    config: &Config,
    hot: &mut Hot,
    cold: &mut Cold,
    options: &Options,
    irs: SeqNumber,
    agreed: &Agreed,
    is_ipv4: bool,
) {
    cold.irs = irs;
    hot.rcv.synchronize(irs);
    hot.snd_wscale = agreed.snd_wscale;
    hot.rcv_wscale = agreed.rcv_wscale;
    hot.set(Flags::TIMESTAMPS, agreed.timestamps);
    hot.set(Flags::SACK, agreed.sack);
    hot.set(Flags::SCALING, agreed.scaling);
    cold.peer_mss = agreed.peer_mss;
    hot.loss.mss = effective_mss(
        config,
        agreed.peer_mss,
        cold.path.mtu,
        is_ipv4,
        agreed.timestamps,
        options,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CongestionControl, EcnUse};
    use crate::side_pool::SidePool;
    use std::net::SocketAddr;

    fn configs() -> [Config; 3] {
        let plain = Config::default();
        let marking = Config {
            ecn: EcnUse::Passive,
            congestion: CongestionControl::Dctcp,
            ..Config::default()
        };
        let small = Config {
            ecn: EcnUse::On,
            max_buffer: 4096,
            autotune: false,
            max_segment: Some(700),
            ..Config::default()
        };
        [plain, marking, small]
    }

    fn choices() -> [Options; 4] {
        let none = Options::default();
        [
            none,
            Options {
                congestion: Some(CongestionControl::Bbr),
                max_segment: Some(900),
                ..none
            },
            Options {
                congestion: Some(CongestionControl::NewReno),
                send_buffer: Some(2048),
                recv_buffer: Some(9000),
                ..none
            },
            Options {
                congestion: Some(CongestionControl::Dctcp),
                nodelay: true,
                ..none
            },
        ]
    }

    fn check(config: &Config, options: &Options, src: &str, place: &mut Cold) {
        let mut models = SidePool::new(2).unwrap();
        let end: SocketAddr = src.parse().unwrap();
        let path = Path {
            src: end.ip(),
            mtu: 1500,
            ..Path::NOWHERE
        };
        let opening = Opening {
            key: &FlowKey::new(end, end),
            path: &path,
            options: SetId::NONE,
            start: Start {
                iss: SeqNumber(7),
                ts_offset: 1,
            },
            token: Token(3),
        };
        let now = Instant::from_millis(1234);
        renew(place, config, &opening, options, now, &mut models);
        let kind = options.congestion.unwrap_or(config.congestion);
        let mut other = SidePool::new(2).unwrap();
        let congestion = Algorithm::new(kind, 7, &mut other);
        let loss = loss::Cold::new(SeqNumber(7), congestion, options.max_pacing_rate);
        assert_eq!(*place, cold_with(config, &opening, options, now, loss));
    }

    #[test]
    fn a_block_in_a_used_place_is_as_good_as_one_made_elsewhere() {
        for config in &configs() {
            let (_, mut place) = blank(config);
            for options in &choices() {
                for src in ["10.0.0.1:80", "[fd00::1]:80"] {
                    check(config, options, src, &mut place);
                    place.statistics.segments_in = 9;
                    place.statistics.active = true;
                    (place.irs, place.read_shut) = (SeqNumber(5), true);
                    place.loss.min_rtt.take(Instant::from_millis(9), 10);
                }
            }
        }
    }
}
