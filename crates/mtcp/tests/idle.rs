//! Waiting costs no processor time. Alone in its process, because it measures it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use mtcp::{Ctl, Domain, EpollEvent, Events, Interest, Mode};
use rustix::time::{ClockId, clock_gettime};
use support::contexts_with;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn an_idle_wait_sleeps() {
    for mode in [Mode::Inline, Mode::Paired] {
        let (mut client, _server) = contexts_with(mode, Mode::Inline, |config| {
            config.spin = Duration::from_micros(30)
        });
        let ep = client.epoll_create().unwrap();
        let listener = client.socket(Domain::V4).unwrap();
        client.listen(listener, 4).unwrap();
        client
            .epoll_ctl(
                ep,
                Ctl::Add,
                listener,
                Interest {
                    events: Events::IN,
                    data: 0,
                },
            )
            .unwrap();
        client
            .epoll_wait(
                ep,
                &mut [EpollEvent::default()],
                Some(Duration::from_millis(20)),
            )
            .unwrap();
        let (start, before) = (Instant::now(), cpu_time());
        client
            .epoll_wait(
                ep,
                &mut [EpollEvent::default()],
                Some(Duration::from_millis(300)),
            )
            .unwrap();
        let used = cpu_time() - before;
        assert!(start.elapsed() >= Duration::from_millis(300));
        assert!(
            used < Duration::from_millis(15),
            "{mode:?}: {used:?} of processor time in 300 ms"
        );
    }
}
