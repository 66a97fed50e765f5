//! What a data segment costs on its way in and on its way out:
//! `cargo bench -p mtcp-core --features testing`. One connection, warm caches.
#![allow(missing_docs, clippy::expect_used)]

use std::cell::RefCell;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use mtcp_core::command::Options;
use mtcp_core::testing::{Fate, Pair};
use mtcp_core::{Command, ConnId, PortId};
use wire::frame::{FrameSink, RxChecksum, RxFrame, RxMeta, TxMeta};

/// Segments per measured call.
const SEGMENTS: usize = 32;
const PORT: PortId = PortId(0);

fn main() {
    divan::main();
}

/// Frames that were sent, in memory that is taken once.
struct Wire {
    frames: Vec<Vec<u8>>,
    lens: Vec<usize>,
}

impl Wire {
    fn new() -> Self {
        Self {
            frames: vec![vec![0; 1600]; 2 * SEGMENTS],
            lens: Vec::with_capacity(2 * SEGMENTS),
        }
    }

    fn lent(&self) -> Vec<RxFrame<'_>> {
        let meta = RxMeta {
            checksum: RxChecksum::Trusted,
            ..RxMeta::default()
        };
        let frames = self.frames.iter().zip(&self.lens);
        frames
            .map(|(frame, &len)| RxFrame {
                bytes: &frame[..len],
                meta,
            })
            .collect()
    }
}

impl FrameSink for Wire {
    fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> TxMeta) -> bool {
        let Some(frame) = self.frames.get_mut(self.lens.len()) else {
            return false;
        };
        self.lens.push(fill(frame).len);
        true
    }
}

/// Two stacks with a connection between them, and what is on its way from the client to the server.
struct Lab {
    pair: Pair,
    client: ConnId,
    server: ConnId,
    sent: Wire,
    payload: Vec<u8>,
}

impl Lab {
    fn new(bytes: usize) -> Self {
        let mut pair = Pair::new(Duration::from_micros(10), |config| {
            config.initial_window = 4 * SEGMENTS as u8;
            config.recv_buffer = 1 << 20;
            config.send_buffer = 1 << 20;
        });
        let options = Options {
            nodelay: true,
            ..Options::default()
        };
        let (client, server) = pair.connect(options, |_, _| Fate::Pass);
        Self {
            pair,
            client,
            server,
            sent: Wire::new(),
            payload: vec![7; bytes],
        }
    }

    /// Makes one segment due at the client.
    fn write(&mut self) {
        let end = &mut self.pair.ends[0];
        end.app.write(self.client.slot, &self.payload);
        let send = Command::Send(self.client);
        end.stack.execute(self.pair.now, send).expect("send");
    }

    /// The client sends what is due.
    fn transmit(&mut self) {
        let stack = &mut self.pair.ends[0].stack;
        stack.transmit(self.pair.now, PORT, &mut self.sent);
    }

    /// The server takes what was sent.
    fn receive(&mut self) {
        let stack = &mut self.pair.ends[1].stack;
        stack.receive(self.pair.now, PORT, &self.sent.lent());
    }

    /// The server reads all of it and acknowledges.
    fn settle(&mut self) {
        self.sent.lens.clear();
        let end = &mut self.pair.ends[1];
        let mut buf = vec![0; self.payload.len() * SEGMENTS];
        end.app.read(self.server.slot, &mut buf);
        let received = Command::Received(self.server);
        end.stack
            .execute(self.pair.now, received)
            .expect("received");
        self.pair.run(Duration::from_millis(50), |_, _| Fate::Pass);
        for end in &mut self.pair.ends {
            end.events.clear();
        }
    }
}

/// Segments in order from the wire into the receive stream.
#[divan::bench(args = [64, 1400], sample_size = 1, sample_count = 1000)]
fn input_fast_path(bencher: Bencher<'_, '_>, bytes: usize) {
    let lab = RefCell::new(Lab::new(bytes));
    let prepare = || {
        let lab = &mut *lab.borrow_mut();
        lab.settle();
        for _ in 0..SEGMENTS {
            lab.write();
            lab.transmit();
        }
        assert_eq!(lab.sent.lens.len(), SEGMENTS);
    };
    bencher
        .counter(ItemsCount::new(SEGMENTS))
        .with_inputs(prepare)
        .bench_local_values(|()| lab.borrow_mut().receive());
}

/// Full-sized segments from the send stream into frames.
#[divan::bench(sample_size = 1, sample_count = 1000)]
fn output(bencher: Bencher<'_, '_>) {
    // With the headers and timestamps, 1448 bytes are a full segment.
    let lab = RefCell::new(Lab::new(1448));
    let prepare = || {
        let lab = &mut *lab.borrow_mut();
        lab.receive();
        lab.settle();
        for _ in 0..SEGMENTS {
            lab.write();
        }
    };
    bencher
        .counter(ItemsCount::new(SEGMENTS))
        .with_inputs(prepare)
        .bench_local_values(|()| lab.borrow_mut().transmit());
}
