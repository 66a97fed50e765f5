//! The lists of a port, as one connection sees them.

use crate::id::PortId;
use crate::tcp::flags::{Bits, ListFlags};
use crate::tcp::queues::{Output, Queues};

/// The flag that says that a connection is on a list.
fn flag(list: Output) -> ListFlags {
    match list {
        Output::Control => ListFlags::ON_CONTROL,
        Output::Data => ListFlags::ON_DATA,
        Output::Parked => ListFlags::PARKED,
    }
}

/// On which lists a connection is, for one step.
#[derive(Debug)]
pub(crate) struct Lists<'a> {
    pub queues: &'a mut Queues,
    pub bits: Bits<'a, ListFlags>,
    pub port: PortId,
    pub place: u32,
}

impl Lists<'_> {
    /// Gets onto one of the lists for output.
    #[inline(always)]
    pub fn join(&mut self, list: Output) {
        if self.queues.push_output(self.port, list, self.place) {
            self.bits.insert(flag(list));
        }
    }

    /// Whether it is there.
    pub fn is_on(&self, list: Output) -> bool {
        self.bits.has(flag(list))
    }

    /// Leaves a list, if it is there.
    #[inline(always)]
    pub fn leave(&mut self, list: Output) {
        if self.bits.has(flag(list)) {
            self.queues.remove_output(self.port, list, self.place);
            self.bits.remove(flag(list));
        }
    }

    /// Others have their turn first, on the same list: the one before it in `transmit` has been
    /// drained already.
    pub fn give_way(&mut self, list: Output) {
        self.queues.remove_output(self.port, list, self.place);
        self.queues.push_output(self.port, list, self.place);
    }

    /// Gets onto the list of ACKs. False if it is there already, and may wait.
    #[inline(always)]
    pub fn join_acks(&mut self) -> bool {
        self.queues.push_ack(self.port, self.place)
    }

    /// Gets to the end of the list of ACKs, where none waits.
    pub fn move_ack_to_end(&mut self) {
        self.leave_acks();
        self.join_acks();
    }

    /// Leaves the list of ACKs, if it is there.
    #[inline(always)]
    pub fn leave_acks(&mut self) {
        self.queues.remove_ack(self.port, self.place);
    }

    /// Leaves all lists of the port.
    #[inline]
    pub fn leave_all(&mut self) {
        let any = ListFlags::ON_CONTROL | ListFlags::ON_DATA | ListFlags::PARKED;
        if self.bits.has(any) {
            for list in [Output::Control, Output::Data, Output::Parked] {
                self.leave(list);
            }
        }
        self.leave_acks();
    }

    /// Waits for its neighbour to be resolved, and for nothing else.
    pub fn park(&mut self) {
        self.leave_all();
        self.join(Output::Parked);
    }
}
