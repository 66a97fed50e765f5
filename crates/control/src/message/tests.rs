use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::NetNamespace;
use crate::fuzzing;

fn namespace() -> impl Strategy<Value = NetNamespace> {
    (any::<u64>(), any::<u64>()).prop_map(|(device, inode)| NetNamespace { device, inode })
}

fn requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        ("[ -~]{0,48}", namespace())
            .prop_map(|(build, namespace)| Request::Hello(Hello { build, namespace })),
        Just(Request::Attach),
        Just(Request::Introduce),
        any::<u64>().prop_map(|from| Request::Status { from }),
        any::<u64>().prop_map(|from| Request::Sockets { from }),
        any::<u64>().prop_map(|from| Request::Settings { from }),
    ]
}

fn client() -> impl Strategy<Value = ClientRow> {
    (any::<[u32; 6]>(), any::<[u64; 3]>(), "[ -~]{0,16}").prop_map(|(small, large, command)| {
        let [pid, uid, connections, listeners, events, channels] = small;
        let [id, memory, seconds] = large;
        ClientRow {
            id,
            pid,
            uid,
            connections,
            listeners,
            events,
            channels,
            memory,
            seconds,
            command,
        }
    })
}

fn socket() -> impl Strategy<Value = SocketRow> {
    let address = (any::<std::net::IpAddr>(), any::<u16>()).prop_map(SocketAddr::from);
    (any::<[u32; 4]>(), 1..=12u8, [address.clone(), address]).prop_map(
        |([uid, pid, receive_queue, send_queue], state, [local, remote])| SocketRow {
            uid,
            pid,
            state,
            local,
            remote,
            receive_queue,
            send_queue,
        },
    )
}

fn overview() -> impl Strategy<Value = Overview> {
    (any::<u64>(), any::<[u32; 2]>(), any::<Drops>()).prop_map(
        |(uptime, [attached, connected], drops)| Overview {
            uptime,
            attached,
            connected,
            drops,
        },
    )
}

fn replies() -> impl Strategy<Value = Reply> {
    let welcome = (
        "[ -~]{0,48}",
        "[a-z]{0,32}",
        namespace(),
        any::<[u32; 2]>(),
        "[ -~]{0,256}",
    );
    let channel = (any::<u32>(), 0..=8u32, any::<[u64; 16]>());
    prop_oneof![
        welcome.prop_map(|(build, name, namespace, [pid, stacks], links)| {
            Reply::Welcome(Welcome {
                build,
                name,
                namespace,
                pid,
                stacks,
                links,
            })
        }),
        ("[ -~]{0,48}", 1..=4095i32, "\\PC{0,200}").prop_map(|(build, errno, line)| {
            Reply::Refused(Refused {
                build,
                errno: Errno::from_raw_os_error(errno),
                line,
            })
        }),
        any::<u32>().prop_map(|channels| Reply::Attached { channels }),
        channel.prop_map(|(stack, descriptors, words)| Reply::Channel(Channel {
            stack,
            descriptors,
            words
        })),
        (overview(), vec(client(), 0..60), any::<u64>()).prop_map(|(overview, clients, next)| {
            Reply::Status {
                overview,
                clients,
                next,
            }
        }),
        (vec(socket(), 0..70), any::<u64>())
            .prop_map(|(sockets, next)| Reply::Sockets { sockets, next }),
        ("([ -~]{1,80}\n){0,40}", any::<u64>())
            .prop_map(|(lines, next)| Reply::Settings { lines, next }),
    ]
}

/// A message of ours, cut or with one byte changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let build = Build::new("test", 7);
    let other = build.clone();
    let whole = prop_oneof![
        requests().prop_map(move |request| request.emit(&build)),
        replies().prop_map(move |reply| reply.emit(&other)),
    ];
    (
        whole,
        any::<prop::sample::Index>(),
        any::<u8>(),
        any::<bool>(),
    )
        .prop_map(|(mut bytes, at, value, cut)| {
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = value;
            }
            bytes
        })
}

proptest! {
    #[test]
    fn requests_survive_the_socket(request in requests()) {
        let build = Build::new("test", 7);
        let bytes = request.emit(&build);
        let envelope = Envelope::parse(&bytes).unwrap();
        prop_assert!(envelope.fits(&build));
        prop_assert!(!envelope.fits(&Build::new("test", 8)));
        prop_assert_eq!(Request::parse(&envelope), Ok(request));
    }

    #[test]
    fn replies_survive_the_socket(reply in replies()) {
        let build = Build::new("test", 7);
        let bytes = reply.emit(&build);
        prop_assert!(bytes.len() <= MESSAGE_MAX);
        let parsed = Reply::parse(&Envelope::parse(&bytes).unwrap()).unwrap();
        match (&parsed, &reply) {
            (Reply::Status { clients, .. }, Reply::Status { clients: sent, .. }) => {
                prop_assert_eq!(clients, &sent[..clients.len()]);
            }
            (Reply::Sockets { sockets, .. }, Reply::Sockets { sockets: sent, .. }) => {
                prop_assert_eq!(sockets, &sent[..sockets.len()]);
            }
            _ => prop_assert_eq!(parsed, reply),
        }
    }

    #[test]
    fn damaged_messages_are_read_or_refused(bytes in damaged()) {
        fuzzing::message(&bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        fuzzing::message(&bytes);
    }
}

#[test]
fn a_text_is_one_line() {
    let refused = Reply::Refused(Refused {
        build: "a\nb".into(),
        errno: Errno::PERM,
        line: "two\nlines".into(),
    });
    let bytes = refused.emit(&Build::new("test", 0));
    let Ok(Reply::Refused(read)) = Reply::parse(&Envelope::parse(&bytes).unwrap()) else {
        panic!("a refusal is read as one");
    };
    assert_eq!(
        (read.build.as_str(), read.line.as_str()),
        ("a b", "two lines")
    );
}

/// Two builds that do not fit must still understand the header, a hello and a refusal: their bytes
/// are promised.
#[test]
fn what_all_versions_share_does_not_change() {
    let build = Build::new("1.2", 0);
    let namespace = NetNamespace {
        device: 4,
        inode: 5,
    };
    let hello = Request::Hello(Hello {
        build: "1.2".into(),
        namespace,
    });
    let bytes = hello.emit(&build);
    assert_eq!(&bytes[..8], b"mtcp\x01\x00\x01\x00");
    assert_eq!(bytes[16..24], [64, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&bytes[24..28], bytes.len()), (&b"1.2\0"[..], 24 + 64));
    let refused = Reply::Refused(Refused {
        build: "1.2".into(),
        errno: Errno::PERM,
        line: "no".into(),
    });
    let bytes = refused.emit(&build);
    assert_eq!(bytes[6..8], [2, 0x80]);
    assert_eq!(bytes.len(), 24 + 48 + 4 + 1024);
    assert_eq!(bytes[72..79], *b"\x01\0\0\0no\0");
}
