//! Scripts on our stack.

use std::collections::HashMap;
use std::time::Duration;

use mtcp::{
    Context, Ctl, Domain, EpollEvent, Errno, Events, Interest, OptionName, SendFlags, SocketId,
    SocketOption,
};

use crate::script::*;
use crate::support::{SERVER, World, addr};

pub struct Ours {
    world: World,
    ids: HashMap<End, SocketId>,
    epolls: [[SocketId; 2]; 2],
}

impl Ours {
    pub fn new() -> Self {
        let mut world = World::new();
        let two = |context: &mut Context| {
            [
                context.epoll_create().unwrap(),
                context.epoll_create().unwrap(),
            ]
        };
        let epolls = [two(&mut world.client), two(&mut world.server)];
        Self {
            world,
            ids: HashMap::new(),
            epolls,
        }
    }

    fn context(&mut self, end: End) -> &mut Context {
        if end.is_client() {
            &mut self.world.client
        } else {
            &mut self.world.server
        }
    }

    fn epoll(&self, end: End, second: bool) -> SocketId {
        self.epolls[usize::from(!end.is_client())][usize::from(second)]
    }

    fn ctl(&mut self, ctl: Ctl, end: End, events: Events, second: bool) -> Answer {
        let (ep, id) = (self.epoll(end, second), self.ids[&end]);
        let interest = Interest {
            events,
            data: end as u64,
        };
        let done = self.context(end).epoll_ctl(ep, ctl, id, interest);
        done.map(|()| 0).map_err(|error| error.0)
    }

    /// What makes ends.
    fn open(&mut self, step: Step) -> mtcp::Result<usize> {
        match step {
            Listen => {
                let listener = self.world.listen(80);
                self.ids.insert(L, listener);
                Ok(0)
            }
            Socket(end) => {
                let socket = self.context(end).socket(Domain::V4).unwrap();
                self.context(end).set_nonblocking(socket, true).unwrap();
                self.ids.insert(end, socket);
                Ok(0)
            }
            Connect(end) => {
                let id = self.ids[&end];
                let connected = self.context(end).connect(id, addr(SERVER, 80));
                connected.map(|()| 0)
            }
            Accept => {
                let accepted = self.world.server.accept(self.ids[&L]);
                accepted.map(|(socket, _)| {
                    self.world.server.set_nonblocking(socket, true).unwrap();
                    self.ids.insert(S, socket);
                    0
                })
            }
            Meet => {
                self.meet();
                Ok(0)
            }
            Send(end, n) => {
                let (id, peer) = (self.ids[&end], Some(addr(SERVER, 80)));
                self.context(end)
                    .send_to(id, &vec![7; n], SendFlags::FASTOPEN, peer)
            }
            _ => unreachable!(),
        }
    }

    /// A connection that nobody sees.
    fn meet(&mut self) {
        let socket = self.world.client.socket(Domain::V4).unwrap();
        let ask = SocketOption::FastOpenConnect(true);
        self.world.client.set_option(socket, ask).unwrap();
        self.world.client.set_nonblocking(socket, true).unwrap();
        let connecting = self.world.client.connect(socket, addr(SERVER, 80));
        assert_eq!(connecting, Err(Errno::EINPROGRESS));
        let accepted = self.world.accept(self.ids[&L]);
        self.world.client.abort(socket).unwrap();
        self.world.server.abort(accepted).unwrap();
        self.world.settle();
    }

    fn repeat(
        &mut self,
        end: End,
        mut each: impl FnMut(&mut Context, SocketId) -> mtcp::Result<usize>,
    ) -> Answer {
        let id = self.ids[&end];
        let mut total = 0;
        for _ in 0..10_000 {
            match each(self.context(end), id) {
                Ok(0) => return Ok(total),
                Ok(n) => total += n,
                Err(error) if error.is_would_block() => {
                    let before = total;
                    self.settle();
                    if let Ok(n) = each(self.context(end), id) {
                        total += n;
                    }
                    if total == before {
                        return Ok(total);
                    }
                }
                Err(error) => return Err(error.0),
            }
        }
        panic!("no end of it");
    }
}

fn option(opt: Opt, value: i32) -> SocketOption {
    let number = value as u32;
    match opt {
        Opt::RecvLowWater => SocketOption::RecvLowWater(number),
        Opt::UnsentLowWater => SocketOption::UnsentLowWater(number),
        Opt::Cork => SocketOption::Cork(value != 0),
        Opt::NoDelay => SocketOption::NoDelay(value != 0),
        Opt::QuickAck => SocketOption::QuickAck(value != 0),
        Opt::DeferAccept => SocketOption::DeferAccept(Duration::from_secs(number.into())),
        Opt::WindowClamp => SocketOption::WindowClamp(number),
        Opt::FastOpen => SocketOption::FastOpen(number),
        Opt::FastOpenConnect => SocketOption::FastOpenConnect(value != 0),
        Opt::PacingRate => SocketOption::MaxPacingRate(Some(number.into())),
    }
}

fn name(opt: Opt) -> OptionName {
    match opt {
        Opt::RecvLowWater => OptionName::RecvLowWater,
        Opt::UnsentLowWater => OptionName::UnsentLowWater,
        Opt::Cork => OptionName::Cork,
        Opt::NoDelay => OptionName::NoDelay,
        Opt::QuickAck => OptionName::QuickAck,
        Opt::DeferAccept => OptionName::DeferAccept,
        Opt::WindowClamp => OptionName::WindowClamp,
        Opt::FastOpen => OptionName::FastOpen,
        Opt::FastOpenConnect => OptionName::FastOpenConnect,
        Opt::PacingRate => OptionName::MaxPacingRate,
    }
}

fn unacked(context: &mut Context, id: SocketId) -> mtcp::Result<usize> {
    let (unacked, _) = context.unacknowledged(id)?;
    Ok(unacked as usize)
}

fn shown(option: SocketOption) -> usize {
    match option {
        SocketOption::RecvLowWater(n)
        | SocketOption::UnsentLowWater(n)
        | SocketOption::FastOpen(n)
        | SocketOption::WindowClamp(n) => n as usize,
        SocketOption::MaxPacingRate(Some(rate)) => rate as usize,
        SocketOption::FastOpenConnect(on) => usize::from(on),
        SocketOption::Cork(on) | SocketOption::NoDelay(on) | SocketOption::QuickAck(on) => {
            usize::from(on)
        }
        SocketOption::DeferAccept(time) => time.as_secs() as usize,
        other => panic!("{other:?} is not asked for"),
    }
}

impl Net for Ours {
    fn step(&mut self, step: Step) -> Answer {
        let ids = self.ids.clone();
        let id = |end: End| ids[&end];
        let result = match step {
            Listen | Socket(_) | Meet | Connect(_) | Accept | Send(..) => self.open(step),
            Add(end, events) => return self.ctl(Ctl::Add, end, events, false),
            Mod(end, events) => return self.ctl(Ctl::Mod, end, events, false),
            Del(end) => return self.ctl(Ctl::Del, end, Events::empty(), false),
            Add2(end, events) => return self.ctl(Ctl::Add, end, events, true),
            Write(end, n) => self.context(end).write(id(end), &vec![7; n]),
            Read(end, n) => self.context(end).read(id(end), &mut vec![0; n]),
            Fill(end) => return self.repeat(end, |context, id| context.write(id, &[7; 65_536])),
            Drain(end) => {
                return self.repeat(end, |context, id| context.read(id, &mut [0; 65_536]));
            }
            Shutdown(end, how) => self.context(end).shutdown(id(end), how).map(|()| 0),
            Close(end) => self.context(end).close(id(end)).map(|()| 0),
            Reset(end) => {
                let context = self.context(end);
                context
                    .set_option(id(end), SocketOption::Linger(Some(Duration::ZERO)))
                    .unwrap();
                context.close(id(end)).map(|()| 0)
            }
            Error(end) => self
                .context(end)
                .take_error(id(end))
                .map(|error| error.map_or(0, |e| e.0 as usize)),
            Set(end, opt, value) => {
                let option = option(opt, value);
                self.context(end).set_option(id(end), option).map(|()| 0)
            }
            Get(end, opt) => self.context(end).option(id(end), name(opt)).map(shown),
            Unacked(end) => unacked(self.context(end), id(end)),
            Wait(_) | Wait2(_) => unreachable!(),
        };
        result.map_err(|error| error.0)
    }

    fn wait(&mut self, end: End, second: bool) -> Vec<(End, Events)> {
        let ep = self.epoll(end, second);
        let mut events = [EpollEvent::default(); 8];
        let n = self
            .context(end)
            .epoll_wait(ep, &mut events, Some(Duration::ZERO))
            .unwrap();
        sorted(events[..n].iter().map(|event| (event.data, event.events)))
    }

    fn settle(&mut self) {
        self.world.settle();
    }
}
