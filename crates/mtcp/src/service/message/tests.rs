use std::net::{Ipv4Addr, Ipv6Addr};

use mtcp_core::command::Options;
use mtcp_core::info::TcpInfo;
use proptest::prelude::*;

use super::*;

fn read<T: DeserializeOwned>(message: &Message, text: Text) -> Result<T, Disorder> {
    let rest = message.units().get(1..).unwrap();
    assert_eq!(rest.len(), text.units());
    text.read(rest, &mut [0; MAX_TEXT])
}

fn call(call: Call) {
    let mut room = Room::new();
    // What was said before leaves nothing.
    room.bytes.fill(u8::MAX);
    let header = room.call(77, &call).unwrap()[0];
    let Ok(Said::Call(text)) = Said::of(header) else {
        panic!("{header:?}");
    };
    assert_eq!(text.serial, 77);
    assert_eq!(read(&room.message, text), Ok(call));
    let units = room.message.units().to_vec();
    assert_eq!(Room::new().call(77, &call), Some(&units[..]));
}

fn answer(answer: Answer) {
    let message = Message::answer(u32::MAX, &answer).unwrap();
    let Ok(Told::Answer(text)) = Told::of(message.units()[0]) else {
        panic!("{message:?}");
    };
    assert_eq!(text.serial, u32::MAX);
    assert_eq!(read(&message, text), Ok(answer));
}

fn end(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

const CONN: ConnId = ConnId {
    slot: 7,
    generation: u32::MAX,
};

#[test]
fn calls_and_answers_arrive_as_they_were() {
    let remote = end(Ipv6Addr::LOCALHOST, 65535);
    call(Call::Usage);
    call(Call::Command(Command::Close(CONN)));
    call(Call::Command(Command::Connect {
        token: Token(3),
        local: Some(end(Ipv4Addr::new(10, 0, 0, 1), 0)),
        remote,
        options: Options {
            nodelay: true,
            linger: Some(std::time::Duration::from_nanos(1_500_000_001)),
            recv_buffer: Some(u32::MAX),
            max_pacing_rate: Some(u64::MAX),
            ..Options::default()
        },
    }));
    call(Call::Facts);
    let mut config = Config::default();
    for n in 0..20 {
        config.set("addr", &format!("fd00::{n}/64")).unwrap();
    }
    let facts = Facts::of(&config);
    answer(Answer::Facts(facts));
    answer(Answer::Reply(Err(98)));
    answer(Answer::Reply(Ok(Reply::Connecting(CONN, remote))));
    answer(Answer::Reply(Ok(Reply::Info(TcpInfo {
        cwnd: u32::MAX,
        bytes_acked: u64::MAX,
        bytes_received: u64::MAX,
        ..TcpInfo::default()
    }))));
    answer(Answer::Usage {
        open: 4,
        undelivered: Undelivered {
            connections: 1,
            bytes: u64::MAX,
        },
    });
}

#[test]
fn events_arrive_as_they_were() {
    for error in std::iter::once(None).chain(Error::ALL.iter().copied().map(Some)) {
        let event = Event::Ready {
            conn: CONN,
            token: Token(0x8000_0001),
            ready: Ready::all(),
            error,
        };
        let news = News::of(&event);
        assert_eq!(news.units().len(), 1);
        assert_eq!(Told::of(news.units()[0]), Ok(Told::Event(event)));
    }
    for (local, remote) in [
        (
            end(Ipv4Addr::new(10, 0, 0, 1), 80),
            end(Ipv4Addr::BROADCAST, 65535),
        ),
        (end(Ipv6Addr::LOCALHOST, 1), end(Ipv6Addr::UNSPECIFIED, 2)),
    ] {
        let (listener, key) = (Token(9), FlowKey::new(local, remote));
        let news = News::of(&Event::Accepted {
            listener,
            conn: CONN,
            key,
        });
        let [header, rest @ ..] = news.units() else {
            panic!("{news:?}");
        };
        let conn = CONN;
        assert_eq!(Told::of(*header), Ok(Told::Accepted { listener, conn }));
        assert_eq!(Told::addresses(rest.try_into().unwrap()), key);
    }
}

#[test]
fn every_kind_of_news_is_known_and_no_other() {
    for kind in 0..u64::from(u8::MAX) {
        let is_news = matches!(Said::of([kind, 0]), Ok(Said::News(_)));
        assert_eq!(is_news, kind <= 7, "{kind}");
    }
}

proptest! {
    /// Whatever a program says, it is understood or refused.
    #[test]
    fn anything_may_be_said(
        unit in any::<Unit>(),
        kind in 0..20u64,
        units in proptest::collection::vec(any::<Unit>(), MAX_UNITS),
    ) {
        for unit in [unit, [kind | unit[0] << 32, unit[1]], [kind | (unit[0] & 0xfff) << 32, 0]] {
            if let Ok(Said::Call(text)) = Said::of(unit) {
                prop_assert!(text.units() < MAX_UNITS);
                let _ = text.read::<Call>(&units, &mut [0; MAX_TEXT]);
            }
            if let Ok(Told::Answer(text)) = Told::of(unit) {
                prop_assert!(text.units() < MAX_UNITS);
                let _ = text.read::<Answer>(&units, &mut [0; MAX_TEXT]);
            }
        }
    }
}
