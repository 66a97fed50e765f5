//! The sockets of all stacks, as the control socket wants them: one stack behind the other.

use control::message::{SOCKETS_IN_PAGE, SocketRow};
use control::server::SocketsAnswer;
use mtcp::service::{HostHandle, Piece, Socket};

/// In a place: the number of the stack is above what the stack calls the place.
const STACK: u32 = 40;

/// Has a piece of the list made, from a place on that anybody may have said.
pub(super) fn list(hosts: &[HostHandle], of: Option<u32>, from: u64, answer: SocketsAnswer) {
    let (stack, within) = (from >> STACK, from & ((1 << STACK) - 1));
    let host = usize::try_from(stack).ok().and_then(|at| hosts.get(at));
    let Some(host) = host else {
        return answer.send(Vec::new(), 0);
    };
    let is_last = stack + 1 == hosts.len() as u64;
    let send = move |piece: Piece| {
        let next = match piece.next {
            Some(next) => stack << STACK | next,
            None if is_last => 0,
            None => (stack + 1) << STACK,
        };
        answer.send(piece.sockets.iter().map(row).collect(), next);
    };
    // Where the stack has ended, the answer is dropped, which the program is told.
    let _ = host.list_sockets(of, within, SOCKETS_IN_PAGE, send);
}

fn row(socket: &Socket) -> SocketRow {
    let Socket {
        uid,
        pid,
        local,
        remote,
        state,
        recv_queue,
        send_queue,
    } = *socket;
    SocketRow {
        uid,
        pid: pid.unwrap_or(0),
        state: state.linux_number(),
        local,
        remote,
        receive_queue: recv_queue,
        send_queue,
    }
}
