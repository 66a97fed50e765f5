//! What values socket options take: the ranges and roundings of Linux.

use std::time::Duration;

use mtcp_core::command::Options;
use mtcp_core::config::Config;
use mtcp_core::deferral;

use super::choices::Choices;
use super::table::{Body, Flags, Socket};
use super::{OptionName, SocketOption};
use crate::settings::Settings;
use crate::{Errno, Result};

/// Linux: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL, MAX_TCP_KEEPCNT.
const KEEP_SECONDS: (u64, u64) = (1, 32_767);
const KEEP_COUNT: (u8, u8) = (1, 127);
/// Linux: MAX_TCP_SYNCNT.
const SYN_COUNT: (u8, u8) = (1, 127);
/// Linux: TCP_MIN_MSS and MAX_TCP_WINDOW.
const SEGMENT: (u16, u16) = (88, 32_767);
/// Smallest socket buffer, bytes.
const MIN_BUFFER: u32 = 2048;
/// Largest buffer that a low-water mark makes, bytes.
const MAX_BUFFER: u32 = 8 << 20;
/// Linux: half of SOCK_MIN_RCVBUF.
const MIN_CLAMP: u32 = 1152;
/// Linux: net.core.somaxconn.
const MAX_BACKLOG: u32 = 4096;
/// Linux: TCP_FIN_TIMEOUT_MAX.
const MAX_FIN_WAIT_2: Duration = Duration::from_secs(120);

/// Changes an option that is a value and nothing else.
pub(crate) fn change(choices: &mut Choices, option: SocketOption) -> Result<()> {
    let Choices {
        options, keepalive, ..
    } = choices;
    match option {
        SocketOption::Linger(linger) => options.linger = linger,
        SocketOption::RecvBuffer(bytes) => options.recv_buffer = Some(bytes.max(MIN_BUFFER)),
        SocketOption::SendBuffer(bytes) => options.send_buffer = Some(bytes.max(MIN_BUFFER)),
        SocketOption::NoDelay(on) => options.nodelay = on,
        SocketOption::Cork(on) => options.cork = on,
        SocketOption::QuickAck(on) => options.delay_acks = !on,
        SocketOption::MaxSegment(0) => options.max_segment = None,
        SocketOption::MaxSegment(bytes) => options.max_segment = Some(within(bytes, SEGMENT)?),
        SocketOption::KeepIdle(time) => keepalive.idle = keep_time(time)?,
        SocketOption::KeepInterval(time) => keepalive.interval = keep_time(time)?,
        SocketOption::KeepCount(count) => keepalive.count = within(count, KEEP_COUNT)?,
        SocketOption::UserTimeout(time) => options.user_timeout = not_zero(time),
        SocketOption::Congestion(algorithm) => options.congestion = Some(algorithm),
        SocketOption::DeferAccept(time) => options.defer_accept = deferral::retransmissions(time),
        SocketOption::SynCount(count) => options.syn_retries = Some(within(count, SYN_COUNT)?),
        SocketOption::FinWait2(time) => {
            options.fin_wait_2 = time.map(|time| time.min(MAX_FIN_WAIT_2));
        }
        SocketOption::WindowClamp(bytes) => {
            options.window_clamp = (bytes > 0).then_some(bytes.max(MIN_CLAMP));
        }
        SocketOption::UnsentLowWater(bytes) => {
            options.unsent_low_water = Some(bytes).filter(|&bytes| bytes > 0);
        }
        SocketOption::FastOpen(most) => {
            options.fast_open = Some(most.min(MAX_BACKLOG)).filter(|&most| most > 0);
        }
        SocketOption::FastOpenConnect(on) => options.fast_open_connect = on,
        SocketOption::MaxPacingRate(rate) => options.max_pacing_rate = rate,
        SocketOption::IncomingCpu(cpu) => choices.incoming_cpu = cpu,
        SocketOption::MtuDiscovery(how) => choices.mtu_discovery.0 = how,
        SocketOption::MtuDiscoveryV6(how) => choices.mtu_discovery.1 = how,
        SocketOption::RecvTimeout(time) => choices.recv_timeout = time,
        SocketOption::SendTimeout(time) => choices.send_timeout = time,
        SocketOption::Tos(class) => options.v4.class = class & !3,
        SocketOption::Ttl(hops) => options.v4.hop_limit = hops,
        SocketOption::TrafficClass(class) => options.v6.class = class & !3,
        SocketOption::HopLimit(hops) => options.v6.hop_limit = hops,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Whether an option is among the choices and nowhere else: what it makes of them depends on
/// nothing but what they were.
pub(crate) fn is_value(option: SocketOption) -> bool {
    !matches!(
        option,
        SocketOption::ReuseAddr(_)
            | SocketOption::ReusePort(_)
            | SocketOption::OnlyV6(_)
            | SocketOption::OobInline(_)
            | SocketOption::KeepAlive(_)
            | SocketOption::RecvLowWater(_)
    )
}

/// SO_RCVLOWAT: at most half of the buffer, which grows for it unless the application has chosen
/// its size. `default`: of a buffer.
pub(crate) fn set_low_water(choices: &mut Choices, bytes: u32, default: u32) {
    let most = choices.options.recv_buffer.unwrap_or(MAX_BUFFER) / 2;
    let bytes = bytes.clamp(1, most.max(1));
    choices.recv_low_water = bytes;
    if bytes > choices.options.recv_buffer.unwrap_or(default) / 2 {
        choices.options.recv_buffer = Some(2 * bytes);
    }
}

/// Changes an option of `socket`. `default`: size of a receive buffer.
pub(crate) fn apply(
    option: SocketOption,
    socket: &mut Socket,
    choices: &mut Choices,
    default: u32,
) -> Result<()> {
    let flags = &mut socket.flags;
    match option {
        SocketOption::ReuseAddr(on) => flags.set(Flags::REUSE_ADDR, on),
        SocketOption::ReusePort(on) => flags.set(Flags::REUSE_PORT, on),
        // Linux: not once it has a port.
        SocketOption::OnlyV6(on)
            if flags.contains(Flags::V6)
                && !flags.contains(Flags::BOUND)
                && socket.body == Body::Idle =>
        {
            flags.set(Flags::ONLY_V6, on);
        }
        SocketOption::OnlyV6(_) => return Err(Errno::EINVAL),
        SocketOption::OobInline(on) => flags.set(Flags::OOB_INLINE, on),
        SocketOption::KeepAlive(on) => flags.set(Flags::KEEPALIVE, on),
        // Linux: what was offered cannot be taken back.
        SocketOption::WindowClamp(0) if socket.body != Body::Idle => {
            return Err(Errno::EINVAL);
        }
        // Linux: how a connection opens is settled before.
        SocketOption::FastOpen(_) if matches!(socket.body, Body::Stream(_)) => {
            return Err(Errno::EINVAL);
        }
        SocketOption::FastOpenConnect(_) if socket.body != Body::Idle => {
            return Err(Errno::EINVAL);
        }
        SocketOption::RecvLowWater(bytes) => {
            set_low_water(choices, bytes, default);
            flags.set(Flags::LOW_WATER, choices.recv_low_water > 1);
        }
        other => change(choices, other)?,
    }
    let keepalive = flags.contains(Flags::KEEPALIVE);
    choices.options.keepalive = keepalive.then_some(choices.keepalive);
    Ok(())
}

/// Reads an option that is a flag or a choice of the socket.
pub(crate) fn show(
    socket: &Socket,
    choices: &Choices,
    name: OptionName,
    settings: &Settings,
) -> Result<SocketOption> {
    let has = |flag| socket.flags.contains(flag);
    let (options, keep) = (&choices.options, choices.keepalive);
    let marking = (options.v4, options.v6);
    Ok(match name {
        OptionName::ReuseAddr => SocketOption::ReuseAddr(has(Flags::REUSE_ADDR)),
        OptionName::ReusePort => SocketOption::ReusePort(has(Flags::REUSE_PORT)),
        OptionName::OnlyV6 => SocketOption::OnlyV6(has(Flags::ONLY_V6)),
        OptionName::KeepAlive => SocketOption::KeepAlive(has(Flags::KEEPALIVE)),
        OptionName::OobInline => SocketOption::OobInline(has(Flags::OOB_INLINE)),
        OptionName::Domain => SocketOption::Domain(socket.domain()),
        OptionName::Linger => SocketOption::Linger(options.linger),
        OptionName::NoDelay => SocketOption::NoDelay(options.nodelay),
        OptionName::Cork => SocketOption::Cork(options.cork),
        OptionName::QuickAck => SocketOption::QuickAck(!options.delay_acks),
        OptionName::KeepIdle => SocketOption::KeepIdle(keep.idle),
        OptionName::KeepInterval => SocketOption::KeepInterval(keep.interval),
        OptionName::KeepCount => SocketOption::KeepCount(keep.count),
        OptionName::RecvLowWater => SocketOption::RecvLowWater(choices.recv_low_water),
        OptionName::RecvTimeout => SocketOption::RecvTimeout(choices.recv_timeout),
        OptionName::SendTimeout => SocketOption::SendTimeout(choices.send_timeout),
        OptionName::Tos => SocketOption::Tos(marking.0.class),
        OptionName::Ttl => SocketOption::Ttl(marking.0.hop_limit),
        OptionName::TrafficClass => SocketOption::TrafficClass(marking.1.class),
        OptionName::HopLimit => SocketOption::HopLimit(marking.1.hop_limit),
        OptionName::MtuDiscovery => SocketOption::MtuDiscovery(choices.mtu_discovery.0),
        OptionName::MtuDiscoveryV6 => SocketOption::MtuDiscoveryV6(choices.mtu_discovery.1),
        other => show_of_stack(options, other, settings)?,
    })
}

/// Reads an option that has a default of the stack.
fn show_of_stack(options: &Options, name: OptionName, settings: &Settings) -> Result<SocketOption> {
    let defaults = Config::default;
    Ok(match name {
        OptionName::RecvBuffer => {
            SocketOption::RecvBuffer(options.recv_buffer.unwrap_or(settings.rcvbuf))
        }
        OptionName::SendBuffer => {
            SocketOption::SendBuffer(options.send_buffer.unwrap_or(settings.sndbuf))
        }
        OptionName::UserTimeout => {
            SocketOption::UserTimeout(options.user_timeout.unwrap_or(Duration::ZERO))
        }
        OptionName::Congestion => {
            SocketOption::Congestion(options.congestion.unwrap_or(settings.congestion))
        }
        OptionName::DeferAccept => {
            SocketOption::DeferAccept(deferral::time_of(options.defer_accept))
        }
        OptionName::SynCount => {
            SocketOption::SynCount(options.syn_retries.unwrap_or(defaults().syn_retries))
        }
        OptionName::FinWait2 => {
            SocketOption::FinWait2(options.fin_wait_2.or(Some(defaults().fin_wait_2)))
        }
        OptionName::WindowClamp => SocketOption::WindowClamp(options.window_clamp.unwrap_or(0)),
        OptionName::UnsentLowWater => {
            SocketOption::UnsentLowWater(options.unsent_low_water.unwrap_or(0))
        }
        OptionName::FastOpen => SocketOption::FastOpen(options.fast_open.unwrap_or(0)),
        OptionName::FastOpenConnect => SocketOption::FastOpenConnect(options.fast_open_connect),
        OptionName::MaxPacingRate => SocketOption::MaxPacingRate(options.max_pacing_rate),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

fn not_zero(time: Duration) -> Option<Duration> {
    Some(time).filter(|time| !time.is_zero())
}

fn within<T: PartialOrd>(value: T, (low, high): (T, T)) -> Result<T> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(Errno::EINVAL)
    }
}

fn keep_time(time: Duration) -> Result<Duration> {
    within(time.as_secs(), KEEP_SECONDS)?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_linux() {
        let mut choices = Choices::new(Options::default());
        let mut try_one = |option| change(&mut choices, option);
        assert_eq!(
            try_one(SocketOption::KeepIdle(Duration::ZERO)),
            Err(Errno::EINVAL)
        );
        assert_eq!(
            try_one(SocketOption::KeepIdle(Duration::from_secs(32_767))),
            Ok(())
        );
        assert_eq!(try_one(SocketOption::KeepCount(0)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::KeepCount(128)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::SynCount(0)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::SynCount(127)), Ok(()));
        assert_eq!(try_one(SocketOption::MaxSegment(87)), Err(Errno::EINVAL));
        assert_eq!(try_one(SocketOption::MaxSegment(0)), Ok(()));
        assert_eq!(
            try_one(SocketOption::AcceptConn(true)),
            Err(Errno::ENOPROTOOPT)
        );
    }

    #[test]
    fn a_low_water_mark_fits_the_buffer() {
        let mut choices = Choices::new(Options::default());
        set_low_water(&mut choices, 0, 1000);
        assert_eq!(
            (choices.recv_low_water, choices.options.recv_buffer),
            (1, None)
        );
        set_low_water(&mut choices, 600, 1000);
        assert_eq!(
            (choices.recv_low_water, choices.options.recv_buffer),
            (600, Some(1200))
        );
        set_low_water(&mut choices, u32::MAX, 1000);
        assert_eq!(choices.recv_low_water, 600);
    }
}
