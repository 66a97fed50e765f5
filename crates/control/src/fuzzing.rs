//! What the fuzz targets run. Also run by the tests, on random bytes. Each function must accept any
//! bytes; what a parser accepts must survive being written and read again.

use crate::message::{Build, Envelope, Reply, Request};

/// Messages in both directions.
pub fn message(bytes: &[u8]) {
    let Ok(envelope) = Envelope::parse(bytes) else {
        return;
    };
    let build = Build::new("fuzz", 0);
    if let Ok(request) = Request::parse(&envelope) {
        let again = request.emit(&build);
        let again = Envelope::parse(&again).map(|envelope| Request::parse(&envelope));
        assert_eq!(again, Ok(Ok(request)));
    }
    if let Ok(reply) = Reply::parse(&envelope) {
        let again = reply.emit(&build);
        assert!(again.len() <= crate::message::MESSAGE_MAX);
        let again = Envelope::parse(&again).map(|envelope| Reply::parse(&envelope));
        assert_eq!(again, Ok(Ok(reply)));
    }
}

/// A settings file's policy.
pub fn policy(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = crate::policy::Settings::read(text, "fuzz", &crate::policy::NoNames);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::NetNamespace;
    use crate::message::{Hello, Refused, SocketRow};

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 2] = [("control_message", message), ("control_policy", policy)];

    /// Seeds for the fuzzer, and what it once found.
    #[test]
    fn the_corpus_passes() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        for (name, target) in TARGETS {
            let files = std::fs::read_dir(root.join(name)).unwrap();
            let seeds = files.map(|file| target(&std::fs::read(file.unwrap().path()).unwrap()));
            assert!(seeds.count() > 0, "no seeds for {name}");
        }
    }

    /// The seeds are of this version.
    #[test]
    fn the_corpus_is_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/control_message");
        let build = Build::new("seed", 0);
        let namespace = NetNamespace {
            device: 4,
            inode: 4_026_531_840,
        };
        let hello = Request::Hello(Hello {
            build: "seed".into(),
            namespace,
        });
        let refused = Reply::Refused(Refused {
            build: "seed".into(),
            errno: rustix::io::Errno::ACCESS,
            line: "no".into(),
        });
        let sockets = Reply::Sockets {
            sockets: vec![SocketRow {
                uid: 1001,
                pid: 7,
                state: 1,
                local: ([10, 0, 0, 2], 80).into(),
                remote: ([0xfd, 0, 0, 0, 0, 0, 0, 1], 5000).into(),
                receive_queue: 3,
                send_queue: 4,
            }],
            next: 5,
        };
        for (name, bytes) in [
            ("hello.bin", hello.emit(&build)),
            ("status.bin", Request::Status { from: 7 }.emit(&build)),
            ("introduce.bin", Request::Introduce.emit(&build)),
            ("list.bin", Request::Sockets { from: 7 }.emit(&build)),
            ("sockets.bin", sockets.emit(&build)),
            ("refused.bin", refused.emit(&build)),
        ] {
            let path = root.join(name);
            if std::env::var_os("UPDATE_CORPUS").is_some() {
                std::fs::write(&path, &bytes).unwrap();
            }
            let found = std::fs::read(&path).unwrap();
            // The layout hash may change, the rest is promised.
            assert_eq!(
                (&found[..8], &found[16..]),
                (&bytes[..8], &bytes[16..]),
                "{name}"
            );
        }
    }
}
