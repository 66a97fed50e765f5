//! The socket options: constants of Linux, and how each value is read and shown.

use std::ffi::{c_int, c_uint, c_ulong};
use std::time::Duration;

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET};

use crate::{Errno, MtuDiscovery, OptionName, Result, SocketOption};

/// What packets have whose socket does not say.
const DEFAULT_HOPS: u8 = 64;
/// TCP_CA_NAME_MAX.
const NAME_LEN: usize = 16;

/// Where a value comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The socket's options.
    Option(OptionName),
    /// It never changes.
    Fixed(c_int),
    /// `struct tcp_info`.
    Info,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(super) level: c_int,
    pub(super) name: c_int,
    /// Where its value comes from.
    pub source: Source,
    /// Reads a value; `ENOPROTOOPT` if it can only be asked for.
    pub parse: fn(&[u8]) -> Result<SocketOption>,
}

/// The option with this name.
pub fn find(level: c_int, name: c_int) -> Option<&'static Entry> {
    TABLE
        .iter()
        .find(|entry| (entry.level, entry.name) == (level, name))
}

/// `level name: source, parse;`
macro_rules! table {
    ($($level:ident $name:ident: $source:expr, $parse:expr;)*) => {
        const TABLE: &[Entry] = &[$(Entry {
            level: $level,
            name: libc::$name,
            source: { #[allow(unused_imports)] use {OptionName::*, Source::*}; $source },
            parse: $parse,
        },)*];
    };
}

table! {
    SOL_SOCKET SO_REUSEADDR: Option(ReuseAddr), |v| Ok(SocketOption::ReuseAddr(flag(v)?));
    SOL_SOCKET SO_REUSEPORT: Option(ReusePort), |v| Ok(SocketOption::ReusePort(flag(v)?));
    SOL_SOCKET SO_OOBINLINE: Option(OobInline), |v| Ok(SocketOption::OobInline(flag(v)?));
    SOL_SOCKET SO_KEEPALIVE: Option(KeepAlive), |v| Ok(SocketOption::KeepAlive(flag(v)?));
    SOL_SOCKET SO_LINGER: Option(Linger), linger;
    SOL_SOCKET SO_RCVBUF: Option(RecvBuffer), |v| Ok(SocketOption::RecvBuffer(size(v)?));
    SOL_SOCKET SO_SNDBUF: Option(SendBuffer), |v| Ok(SocketOption::SendBuffer(size(v)?));
    SOL_SOCKET SO_ERROR: Option(Error), read_only;
    SOL_SOCKET SO_ACCEPTCONN: Option(AcceptConn), read_only;
    SOL_SOCKET SO_DOMAIN: Option(Domain), read_only;
    SOL_SOCKET SO_TYPE: Fixed(libc::SOCK_STREAM), read_only;
    SOL_SOCKET SO_PROTOCOL: Fixed(IPPROTO_TCP), read_only;
    SOL_SOCKET SO_RCVLOWAT: Option(RecvLowWater), |v| Ok(SocketOption::RecvLowWater(low_water(v)?));
    SOL_SOCKET SO_SNDLOWAT: Fixed(1), read_only;
    SOL_SOCKET SO_RCVTIMEO: Option(RecvTimeout), |v| Ok(SocketOption::RecvTimeout(timeout(v)?));
    SOL_SOCKET SO_SNDTIMEO: Option(SendTimeout), |v| Ok(SocketOption::SendTimeout(timeout(v)?));
    SOL_SOCKET SO_INCOMING_CPU: Option(IncomingCpu), |v| Ok(SocketOption::IncomingCpu(Some(int(v)?)));
    SOL_SOCKET SO_MAX_PACING_RATE: Option(MaxPacingRate), pacing_rate;
    IPPROTO_IP IP_TOS: Option(Tos), |v| Ok(SocketOption::Tos(byte_or_int(v)? as u8));
    IPPROTO_IP IP_TTL: Option(Ttl), ttl;
    IPPROTO_IP IP_MTU: Option(Mtu), read_only_ip;
    IPPROTO_IP IP_MTU_DISCOVER: Option(MtuDiscovery), |v| Ok(SocketOption::MtuDiscovery(mtu_discovery(byte_or_int(v)?)?));
    IPPROTO_IPV6 IPV6_MTU_DISCOVER: Option(MtuDiscoveryV6), |v| Ok(SocketOption::MtuDiscoveryV6(mtu_discovery(int(v)?)?));
    IPPROTO_TCP TCP_CORK: Option(Cork), |v| Ok(SocketOption::Cork(flag(v)?));
    IPPROTO_TCP TCP_QUICKACK: Option(QuickAck), |v| Ok(SocketOption::QuickAck(flag(v)?));
    IPPROTO_TCP TCP_DEFER_ACCEPT: Option(DeferAccept), |v| Ok(SocketOption::DeferAccept(not_negative(v)?));
    IPPROTO_TCP TCP_SYNCNT: Option(SynCount), |v| Ok(SocketOption::SynCount(number(v)?));
    IPPROTO_TCP TCP_LINGER2: Option(FinWait2), fin_wait_2;
    IPPROTO_TCP TCP_WINDOW_CLAMP: Option(WindowClamp), window_clamp;
    IPPROTO_TCP TCP_NOTSENT_LOWAT: Option(UnsentLowWater), |v| Ok(SocketOption::UnsentLowWater(size(v)?));
    IPPROTO_TCP TCP_FASTOPEN: Option(FastOpen), |v| Ok(SocketOption::FastOpen(number(v)?));
    IPPROTO_TCP TCP_FASTOPEN_CONNECT: Option(FastOpenConnect), zero_or_one;
    IPPROTO_IPV6 IPV6_TCLASS: Option(TrafficClass), |v| Ok(SocketOption::TrafficClass(octet(v)?.unwrap_or(0)));
    IPPROTO_IPV6 IPV6_UNICAST_HOPS: Option(HopLimit), |v| Ok(SocketOption::HopLimit(octet(v)?));
    IPPROTO_IPV6 IPV6_MTU: Option(Mtu), read_only_ip;
    IPPROTO_TCP TCP_NODELAY: Option(NoDelay), |v| Ok(SocketOption::NoDelay(flag(v)?));
    IPPROTO_TCP TCP_MAXSEG: Option(MaxSegment), |v| Ok(SocketOption::MaxSegment(number(v)?));
    IPPROTO_TCP TCP_KEEPIDLE: Option(KeepIdle), |v| Ok(SocketOption::KeepIdle(seconds(v)?));
    IPPROTO_TCP TCP_KEEPINTVL: Option(KeepInterval), |v| Ok(SocketOption::KeepInterval(seconds(v)?));
    IPPROTO_TCP TCP_KEEPCNT: Option(KeepCount), |v| Ok(SocketOption::KeepCount(number(v)?));
    IPPROTO_TCP TCP_USER_TIMEOUT: Option(UserTimeout), |v| Ok(SocketOption::UserTimeout(millis(v)?));
    IPPROTO_TCP TCP_CONGESTION: Option(Congestion), congestion;
    IPPROTO_TCP TCP_INFO: Info, read_only;
    IPPROTO_IPV6 IPV6_V6ONLY: Option(OnlyV6), |v| Ok(SocketOption::OnlyV6(flag(v)?));
}

/// Linux looks at the length first, but with IP options.
fn read_only(value: &[u8]) -> Result<SocketOption> {
    int(value).and(Err(Errno::ENOPROTOOPT))
}

fn read_only_ip(_: &[u8]) -> Result<SocketOption> {
    Err(Errno::ENOPROTOOPT)
}

fn int(value: &[u8]) -> Result<c_int> {
    let bytes = value.first_chunk().ok_or(Errno::EINVAL)?;
    Ok(c_int::from_ne_bytes(*bytes))
}

fn flag(value: &[u8]) -> Result<bool> {
    Ok(int(value)? != 0)
}

fn number<T: TryFrom<c_int>>(value: &[u8]) -> Result<T> {
    T::try_from(int(value)?).map_err(|_| Errno::EINVAL)
}

fn seconds(value: &[u8]) -> Result<Duration> {
    number(value).map(Duration::from_secs)
}

fn millis(value: &[u8]) -> Result<Duration> {
    number(value).map(Duration::from_millis)
}

/// Linux: what is negative is 0.
fn not_negative(value: &[u8]) -> Result<Duration> {
    let seconds = u64::try_from(int(value)?).unwrap_or(0);
    Ok(Duration::from_secs(seconds))
}

/// Linux: what is negative is as much as there may be.
fn low_water(value: &[u8]) -> Result<u32> {
    Ok(u32::try_from(int(value)?).unwrap_or(u32::MAX))
}

/// 0 or 1, and nothing else.
fn zero_or_one(value: &[u8]) -> Result<SocketOption> {
    match int(value)? {
        on @ 0..=1 => Ok(SocketOption::FastOpenConnect(on == 1)),
        _ => Err(Errno::EINVAL),
    }
}

/// An `int` or a `long`, unsigned; all ones is no limit.
fn pacing_rate(value: &[u8]) -> Result<SocketOption> {
    let rate = match value.first_chunk() {
        Some(long) => c_ulong::from_ne_bytes(*long),
        None => match int(value)?.cast_unsigned() {
            c_uint::MAX => c_ulong::MAX,
            rate => rate.into(),
        },
    };
    let rate = (rate != c_ulong::MAX).then_some(rate);
    Ok(SocketOption::MaxPacingRate(rate))
}

/// SO_MAX_PACING_RATE for who has no room for a `long`: an `int`, as near as it comes.
pub(crate) fn narrow(rate: &[u8]) -> Vec<u8> {
    let rate = rate
        .first_chunk()
        .map_or(0, |long| c_ulong::from_ne_bytes(*long));
    let rate = c_uint::try_from(rate).unwrap_or(c_uint::MAX);
    rate.to_ne_bytes().to_vec()
}

/// Options of IPv4 are also taken in one byte.
fn byte_or_int(value: &[u8]) -> Result<c_int> {
    match int(value) {
        Err(_) => Ok(value.first().copied().unwrap_or(0).into()),
        whole => whole,
    }
}

/// 1..=255, or -1 for the default.
fn ttl(value: &[u8]) -> Result<SocketOption> {
    let hops = match byte_or_int(value)? {
        -1 => None,
        hops @ 1..=255 => u8::try_from(hops).ok(),
        _ => return Err(Errno::EINVAL),
    };
    Ok(SocketOption::Ttl(hops))
}

/// The values of both families are the same. Those that the stack does not do are refused, so that
/// the program can see it.
fn mtu_discovery(value: c_int) -> Result<MtuDiscovery> {
    match value {
        libc::IP_PMTUDISC_WANT => Ok(MtuDiscovery::Want),
        libc::IP_PMTUDISC_DO => Ok(MtuDiscovery::Do),
        libc::IP_PMTUDISC_DONT..=libc::IP_PMTUDISC_OMIT => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// 0..=255, or -1 for the default.
fn octet(value: &[u8]) -> Result<std::option::Option<u8>> {
    match int(value)? {
        -1 => Ok(None),
        other => u8::try_from(other).map(Some).map_err(|_| Errno::EINVAL),
    }
}

/// Seconds; 0 is the default, what is negative is not at all.
fn fin_wait_2(value: &[u8]) -> Result<SocketOption> {
    let time = match u64::try_from(int(value)?) {
        Ok(0) => None,
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => Some(Duration::ZERO),
    };
    Ok(SocketOption::FinWait2(time))
}

/// Bytes; 0 is none, what is negative is the least there may be.
fn window_clamp(value: &[u8]) -> Result<SocketOption> {
    let bytes = u32::try_from(int(value)?).unwrap_or(1);
    Ok(SocketOption::WindowClamp(bytes))
}

/// `struct timeval`: zero waits for ever, what is negative not at all.
fn timeout(value: &[u8]) -> Result<std::option::Option<Duration>> {
    let (seconds, rest) = value.split_first_chunk().ok_or(Errno::EINVAL)?;
    let micros = rest.first_chunk().ok_or(Errno::EINVAL)?;
    let seconds = libc::time_t::from_ne_bytes(*seconds);
    let micros = libc::suseconds_t::from_ne_bytes(*micros);
    let micros = u32::try_from(micros).map_err(|_| Errno::EDOM)?;
    if micros >= 1_000_000 {
        return Err(Errno::EDOM);
    }
    Ok(match u64::try_from(seconds) {
        Ok(0) if micros == 0 => None,
        Ok(seconds) => Some(Duration::new(seconds, micros * 1000)),
        Err(_) => Some(Duration::ZERO),
    })
}

/// Linux takes it for unsigned, so that negative sizes are large; it cuts large ones to what is
/// allowed, and so does the stack.
fn size(value: &[u8]) -> Result<u32> {
    Ok(int(value)?.cast_unsigned())
}

/// `struct linger`: on, seconds.
fn linger(value: &[u8]) -> Result<SocketOption> {
    let (on, rest) = value.split_first_chunk().ok_or(Errno::EINVAL)?;
    let time = u64::from(int(rest)?.cast_unsigned());
    let on = c_int::from_ne_bytes(*on) != 0;
    Ok(SocketOption::Linger(on.then(|| Duration::from_secs(time))))
}

/// A name, ended by a NUL or the end.
fn congestion(value: &[u8]) -> Result<SocketOption> {
    if value.is_empty() {
        return Err(Errno::EINVAL);
    }
    let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
    let kind = name.parse().map_err(|_| Errno::ENOENT)?;
    Ok(SocketOption::Congestion(kind))
}

/// A value as `getsockopt` gives it.
pub fn show(option: SocketOption) -> Vec<u8> {
    match option {
        SocketOption::Linger(time) => {
            let seconds = saturated(time.unwrap_or_default().as_secs());
            [
                c_int::from(time.is_some()).to_ne_bytes(),
                seconds.to_ne_bytes(),
            ]
            .concat()
        }
        SocketOption::Congestion(congestion) => {
            let mut name = congestion.name().as_bytes().to_vec();
            name.resize(NAME_LEN, 0);
            name
        }
        SocketOption::MaxPacingRate(rate) => rate.unwrap_or(c_ulong::MAX).to_ne_bytes().to_vec(),
        SocketOption::RecvTimeout(time) | SocketOption::SendTimeout(time) => {
            show_timeout(time.unwrap_or_default())
        }
        other => show_int(other).to_ne_bytes().to_vec(),
    }
}

fn show_timeout(time: Duration) -> Vec<u8> {
    let seconds = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
    let micros = libc::suseconds_t::from(time.subsec_micros());
    [seconds.to_ne_bytes(), micros.to_ne_bytes()].concat()
}

fn show_int(option: SocketOption) -> c_int {
    match option {
        SocketOption::ReuseAddr(on)
        | SocketOption::ReusePort(on)
        | SocketOption::OobInline(on)
        | SocketOption::KeepAlive(on)
        | SocketOption::OnlyV6(on)
        | SocketOption::NoDelay(on)
        | SocketOption::Cork(on)
        | SocketOption::QuickAck(on)
        | SocketOption::FastOpenConnect(on)
        | SocketOption::AcceptConn(on) => on.into(),
        SocketOption::RecvBuffer(bytes) | SocketOption::SendBuffer(bytes) => saturated(bytes),
        SocketOption::FastOpen(most) => saturated(most),
        SocketOption::MaxSegment(bytes) => bytes.into(),
        SocketOption::KeepIdle(time) | SocketOption::KeepInterval(time) => {
            saturated(time.as_secs())
        }
        SocketOption::DeferAccept(time) => saturated(time.as_secs()),
        SocketOption::FinWait2(Some(Duration::ZERO)) => -1,
        SocketOption::FinWait2(time) => saturated(time.unwrap_or_default().as_secs()),
        SocketOption::WindowClamp(bytes) | SocketOption::RecvLowWater(bytes) => saturated(bytes),
        SocketOption::UnsentLowWater(bytes) => bytes.cast_signed(),
        SocketOption::Tos(class) | SocketOption::TrafficClass(class) => class.into(),
        SocketOption::Ttl(hops) | SocketOption::HopLimit(hops) => {
            hops.unwrap_or(DEFAULT_HOPS).into()
        }
        SocketOption::Mtu(bytes) => bytes.into(),
        SocketOption::MtuDiscovery(how) | SocketOption::MtuDiscoveryV6(how) => match how {
            MtuDiscovery::Want => libc::IP_PMTUDISC_WANT,
            MtuDiscovery::Do => libc::IP_PMTUDISC_DO,
        },
        SocketOption::IncomingCpu(cpu) => cpu.unwrap_or(-1),
        SocketOption::KeepCount(count) | SocketOption::SynCount(count) => count.into(),
        SocketOption::UserTimeout(time) => saturated(time.as_millis()),
        SocketOption::Error(error) => error.map_or(0, |errno| errno.0),
        SocketOption::Domain(crate::Domain::V4) => libc::AF_INET,
        SocketOption::Domain(crate::Domain::V6) => libc::AF_INET6,
        // Not numbers.
        SocketOption::Linger(_)
        | SocketOption::Congestion(_)
        | SocketOption::MaxPacingRate(_)
        | SocketOption::RecvTimeout(_)
        | SocketOption::SendTimeout(_) => 0,
    }
}

fn saturated(value: impl TryInto<c_int>) -> c_int {
    value.try_into().unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(level: c_int, name: c_int, value: &[u8]) -> Result<SocketOption> {
        (find(level, name).unwrap().parse)(value)
    }

    #[test]
    fn values_read_as_they_show() {
        let ints = [
            (SOL_SOCKET, libc::SO_REUSEADDR, 1),
            (SOL_SOCKET, libc::SO_RCVBUF, 70_000),
            (IPPROTO_TCP, libc::TCP_MAXSEG, 1400),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
            (IPPROTO_TCP, libc::TCP_KEEPCNT, 5),
            (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 1500),
            (IPPROTO_IPV6, libc::IPV6_V6ONLY, 1),
        ];
        for (level, name, value) in ints {
            let value = c_int::to_ne_bytes(value);
            assert_eq!(show(parse(level, name, &value).unwrap()), value);
        }
    }

    #[test]
    fn lingering_is_a_pair() {
        let value = [1i32.to_ne_bytes(), 5i32.to_ne_bytes()].concat();
        let option = parse(SOL_SOCKET, libc::SO_LINGER, &value).unwrap();
        assert_eq!(option, SocketOption::Linger(Some(Duration::from_secs(5))));
        assert_eq!(show(option), value);
        assert_eq!(
            parse(SOL_SOCKET, libc::SO_LINGER, &value[..7]),
            Err(Errno::EINVAL)
        );
        assert_eq!(show(SocketOption::Linger(None)), [0; 8]);
    }

    #[test]
    fn time_outs_are_seconds_and_microseconds() {
        let value =
            |seconds: i64, micros: i64| [seconds.to_ne_bytes(), micros.to_ne_bytes()].concat();
        let parse = |seconds, micros| parse(SOL_SOCKET, libc::SO_RCVTIMEO, &value(seconds, micros));
        let half = Some(Duration::from_millis(1500));
        assert_eq!(parse(1, 500_000), Ok(SocketOption::RecvTimeout(half)));
        assert_eq!(show(SocketOption::RecvTimeout(half)), value(1, 500_000));
        assert_eq!(parse(0, 0), Ok(SocketOption::RecvTimeout(None)));
        let at_once = Some(Duration::ZERO);
        assert_eq!(parse(-1, 0), Ok(SocketOption::RecvTimeout(at_once)));
        assert_eq!(parse(0, 1_000_000), Err(Errno::EDOM));
        assert_eq!(parse(0, -1), Err(Errno::EDOM));
    }

    #[test]
    fn congestion_control_has_a_name() {
        let option = parse(IPPROTO_TCP, libc::TCP_CONGESTION, b"reno\0junk").unwrap();
        assert_eq!(show(option), b"reno\0\0\0\0\0\0\0\0\0\0\0\0");
        let option = parse(IPPROTO_TCP, libc::TCP_CONGESTION, b"dctcp").unwrap();
        assert_eq!(show(option), b"dctcp\0\0\0\0\0\0\0\0\0\0\0");
        let unknown = parse(IPPROTO_TCP, libc::TCP_CONGESTION, b"nosuch");
        assert_eq!(unknown, Err(Errno::ENOENT));
        assert_eq!(
            parse(IPPROTO_TCP, libc::TCP_CONGESTION, b"\xff"),
            Err(Errno::ENOENT)
        );
    }

    #[test]
    fn short_and_negative_values_are_refused() {
        let negative = (-1i32).to_ne_bytes();
        for name in [
            libc::TCP_KEEPIDLE,
            libc::TCP_KEEPCNT,
            libc::TCP_MAXSEG,
            libc::TCP_USER_TIMEOUT,
        ] {
            assert_eq!(parse(IPPROTO_TCP, name, &negative), Err(Errno::EINVAL));
        }
        // Nothing at all is 0 to IPv4.
        for entry in TABLE.iter().filter(|entry| entry.level != IPPROTO_IP) {
            let refused = (entry.parse)(&[]).unwrap_err();
            assert!([Errno::EINVAL, Errno::ENOPROTOOPT, Errno::ENOENT].contains(&refused));
        }
    }
}
