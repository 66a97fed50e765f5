//! Many short connections through event loops, in every combination of modes, level- and
//! edge-triggered.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use mtcp::{Context, Ctl, Domain, EpollEvent, Errno, Events, Interest, SocketId};
use std::collections::HashMap;
use support::{Mode, SERVER, addr, contexts, on_threads, pattern};

const CONNECTIONS: usize = 600;
const AT_ONCE: usize = 40;
/// Longer than one segment, shorter than a buffer.
const ANSWER: usize = 5000;

fn register(context: &mut Context, ep: SocketId, id: SocketId, events: Events) {
    let data = id.0.into();
    context
        .epoll_ctl(ep, Ctl::Add, id, Interest { events, data })
        .unwrap();
}

fn wait(context: &mut Context, ep: SocketId) -> Vec<(SocketId, Events)> {
    let mut events = [EpollEvent::default(); 32];
    let n = match context.epoll_wait(ep, &mut events, None) {
        Err(Errno::ENETDOWN) => 0,
        n => n.unwrap(),
    };
    events[..n]
        .iter()
        .map(|event| (SocketId(event.data as u32), event.events))
        .collect()
}

/// Answers each request of 8 bytes with a pattern that it determines, and closes, until the client
/// and its link are gone.
fn serve(mut context: Context, how: Events) {
    let listener = context.socket(Domain::V4).unwrap();
    context.set_nonblocking(listener, true).unwrap();
    context.bind(listener, addr("0.0.0.0", 80)).unwrap();
    context.listen(listener, 256).unwrap();
    let ep = context.epoll_create().unwrap();
    register(&mut context, ep, listener, Events::IN | how);
    loop {
        let events = wait(&mut context, ep);
        if context.link_error().is_some() {
            return;
        }
        for (id, _) in events {
            if id == listener {
                while let Ok((accepted, _)) = context.accept(listener) {
                    context.set_nonblocking(accepted, true).unwrap();
                    register(&mut context, ep, accepted, Events::IN | how);
                }
                continue;
            }
            let mut request = [0; 8];
            match context.read(id, &mut request) {
                Ok(8) => {
                    let from = u64::from_le_bytes(request) as usize;
                    assert_eq!(context.write(id, &pattern(from, ANSWER)), Ok(ANSWER));
                    context.close(id).unwrap();
                }
                Err(Errno::EAGAIN) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

struct Client {
    context: Context,
    ep: SocketId,
    how: Events,
    /// Number and answer so far of each connection.
    open: HashMap<SocketId, (usize, Vec<u8>)>,
}

impl Client {
    fn start(&mut self, number: usize) {
        let socket = self.context.socket(Domain::V4).unwrap();
        self.context.set_nonblocking(socket, true).unwrap();
        assert_eq!(
            self.context.connect(socket, addr(SERVER, 80)),
            Err(Errno::EINPROGRESS)
        );
        register(&mut self.context, self.ep, socket, Events::OUT | self.how);
        self.open.insert(socket, (number, Vec::new()));
    }

    /// Returns the number of a connection that is to be tried again: it came before the listener.
    fn on_event(&mut self, id: SocketId, events: Events) -> Option<usize> {
        let (number, answer) = self.open.get_mut(&id).unwrap();
        if events.contains(Events::ERR) {
            assert_eq!(self.context.take_error(id), Ok(Some(Errno::ECONNREFUSED)));
            let number = *number;
            self.open.remove(&id);
            self.context.close(id).unwrap();
            return Some(number);
        }
        if answer.is_empty() && events.contains(Events::OUT) {
            assert_eq!(
                self.context.write(id, &(*number as u64).to_le_bytes()),
                Ok(8)
            );
            let interest = Interest {
                events: Events::IN | self.how,
                data: id.0.into(),
            };
            self.context
                .epoll_ctl(self.ep, Ctl::Mod, id, interest)
                .unwrap();
            return None;
        }
        let mut buf = [0; 1024];
        loop {
            match self.context.read(id, &mut buf) {
                Ok(0) => break,
                Ok(n) => answer.extend_from_slice(&buf[..n]),
                Err(Errno::EAGAIN) => return None,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(
            *answer == pattern(*number, ANSWER),
            "connection {number}: {} bytes",
            answer.len()
        );
        self.open.remove(&id);
        self.context.close(id).unwrap();
        None
    }

    fn run(mut self) {
        let mut waiting: Vec<usize> = (0..CONNECTIONS).collect();
        while !waiting.is_empty() || !self.open.is_empty() {
            while self.open.len() < AT_ONCE
                && let Some(number) = waiting.pop()
            {
                self.start(number);
            }
            for (id, events) in wait(&mut self.context, self.ep) {
                waiting.extend(self.on_event(id, events));
            }
        }
    }
}

fn storm(modes: (Mode, Mode), how: Events) {
    let (mut context, server) = contexts(modes.0, modes.1);
    on_threads(
        move || {
            let ep = context.epoll_create().unwrap();
            let client = Client {
                context,
                ep,
                how,
                open: HashMap::new(),
            };
            client.run();
        },
        move || serve(server, how),
    );
}

const NONE: Events = Events::empty();

#[test]
fn inline() {
    storm((Mode::Inline, Mode::Inline), NONE);
    storm((Mode::Inline, Mode::Inline), Events::ET);
}

#[test]
fn paired() {
    storm((Mode::Paired, Mode::Paired), NONE);
    storm((Mode::Paired, Mode::Paired), Events::ET);
}

#[test]
fn mixed() {
    storm((Mode::Service, Mode::Service), NONE);
    storm((Mode::Service, Mode::Service), Events::ET);
    storm((Mode::Inline, Mode::Paired), NONE);
    storm((Mode::Paired, Mode::Inline), Events::ET);
}
