//! Waiting costs no processor time. Alone in its process, because it measures it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::time::{Duration, Instant};

use mtcp::{Ctl, Domain, EpollEvent, Events, Interest};
use rustix::time::{ClockId, clock_gettime};
use support::contexts_with;

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How often this thread has slept.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
fn an_idle_wait_sleeps() {
    for mode in support::MODES {
        let (mut client, _server) = contexts_with(mode, support::Mode::Inline, |config| {
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
        let (start, before, slept) = (Instant::now(), cpu_time(), sleeps());
        let told = client.epoll_wait(
            ep,
            &mut [EpollEvent::default()],
            Some(Duration::from_millis(300)),
        );
        let (used, passed) = (cpu_time() - before, start.elapsed());
        assert_eq!(told, Ok(0), "nothing came");
        assert!(passed >= Duration::from_millis(300));
        assert!(sleeps() > slept, "{mode:?}: this thread slept");
        // However long it took on this machine.
        assert!(
            used < passed / 20,
            "{mode:?}: {used:?} of processor time in {passed:?}"
        );
    }
}
