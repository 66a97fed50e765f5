//! Applications in other processes, as far as the stack can tell: their streams lie in memory that
//! was lent to them.

use ring::stream::{HomeMemory, StreamsConfig};

use crate::{AppStreams, Stack};

/// Every application is in another process where this is in the environment.
pub const IN_HOMES: &str = "MTCP_TEST_IN_HOMES";

/// What a stack has of an application in another process.
#[derive(Debug)]
pub struct Program {
    pub home: u32,
    pub memory: HomeMemory,
    /// The streams in the stack's own process.
    pub own: AppStreams,
}

/// Moves the application there, before it has anything: `app` are its streams.
pub fn move_out(stack: &mut Stack, app: &mut AppStreams) -> Program {
    let slots = stack.tcp.shared.config.max_connections.min(1 << 16);
    let (home, memory, streams) = add_with_memory(stack, slots, 0);
    stack.serve(home);
    Program {
        home,
        memory,
        own: std::mem::replace(app, streams),
    }
}

/// A home of an owner with so many slots, and the end of the application there.
pub fn add_home(stack: &mut Stack, slots: u32, owner: u32) -> (u32, AppStreams) {
    let (home, _, app) = add_with_memory(stack, slots, owner);
    (home, app)
}

fn add_with_memory(stack: &mut Stack, slots: u32, owner: u32) -> (u32, HomeMemory, AppStreams) {
    let config = &stack.tcp.shared.config;
    let memory = HomeMemory::create(
        "application",
        &StreamsConfig {
            slots,
            recv_pool_bytes: config.recv_pool,
            send_pool_bytes: config.send_pool,
            max_buffer: config.max_buffer,
            prefault: 0,
        },
    );
    let memory = memory.expect("memory that can be shared");
    let home = stack.add_home(&memory, owner).expect("a home");
    let fd = memory.fd().try_clone_to_owned().expect("a descriptor");
    let app = AppStreams::attach(fd, &memory.plan());
    (home, memory, app.expect("the memory"))
}
