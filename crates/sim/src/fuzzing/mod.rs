//! What the fuzz targets of the whole stack run. Also run by the tests, on random bytes. Each
//! function must accept any bytes.

mod input;
mod lab;
mod segments;

use std::time::Duration;

use crate::network::Direction;
use crate::scenario::Scenario;
use crate::{LinkId, PipeConfig, Plan};
use input::Input;
use lab::Lab;

/// A fuzz target: a function that must return, whatever the bytes.
pub type Target = fn(&[u8]);

/// All fuzz targets.
pub const TARGETS: [(&str, Target); 2] = [("stack", stack), ("two_stacks", two_stacks)];

/// Most operations of one run.
const MAX_OPS: usize = 2000;
/// Most connections alike.
const MAX_TIMES: u64 = 4;
/// Most frames that are interfered with in each direction.
const MAX_VERDICTS: usize = 150;

/// One stack, and anything at all: calls in any order, right and wrong; segments near what its
/// connections expect, and far from it; any frames; time. Nothing panics, nothing grows beyond its
/// bounds, and when all is closed and time has passed nothing is left.
pub fn stack(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Ok(mut lab) = Lab::new(&mut input) else {
        return;
    };
    for _ in 0..MAX_OPS {
        if input.is_empty() {
            break;
        }
        lab.op(&mut input);
        lab.check();
    }
    lab.finish();
}

/// Two stacks with applications on a link that treats each frame as the bytes say: however it does,
/// all of what one end sends the other receives, and nothing is left.
pub fn two_stacks(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut scenario = Scenario::new(input.u64());
    tame(&mut scenario);
    let (there, back) = input.rest().split_at(input.rest().len() / 2);
    let result = scenario.build().and_then(|mut network| {
        if let Some(text) = crate::settings::trace() {
            network.trace_to(text);
        }
        for (direction, verdicts) in [(Direction::There, there), (Direction::Back, back)] {
            let verdicts = verdicts.get(..MAX_VERDICTS).unwrap_or(verdicts);
            if let Some(pipe) = network.pipe_mut(LinkId(0), direction) {
                pipe.set_verdicts(verdicts.to_vec());
            }
        }
        scenario.run(network)
    });
    let failure = result.err().map(|failure| failure.to_string());
    assert_eq!(failure, None);
}

/// Little data over a link that does nothing by itself, between stacks that do not give up.
fn tame(scenario: &mut Scenario) {
    for pipe in [&mut scenario.link.there, &mut scenario.link.back] {
        *pipe = PipeConfig {
            bits_per_second: pipe.bits_per_second,
            delay: pipe.delay,
            ..PipeConfig::default()
        };
    }
    scenario.outage = None;
    for host in &mut scenario.hosts {
        // Frames will be damaged.
        host.style.trust_checksums = false;
        host.stack.data_retries = u8::MAX;
        host.stack.syn_retries = u8::MAX;
        host.stack.syn_ack_retries = u8::MAX;
        host.stack.rto_max = Duration::from_secs(4);
    }
    for talk in &mut scenario.talks {
        talk.times = talk.times.min(MAX_TIMES);
        let most = |plan: &mut Plan| {
            plan.send = (plan.send.0.min(20_000), plan.send.1.min(20_000));
        };
        most(&mut talk.client);
        most(&mut talk.server);
        let (client, server) = (talk.client.send.0, talk.server.send.0);
        for (plan, other) in [(&mut talk.client, server), (&mut talk.server, client)] {
            if let crate::Ending::AfterBytes(bytes) = &mut plan.ending {
                *bytes = other;
            }
        }
    }
}
