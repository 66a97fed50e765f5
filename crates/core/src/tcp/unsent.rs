//! TCP_NOTSENT_LOWAT: little is taken from the application ahead of what can be sent.

use crate::event::Ready;
use crate::tcp::conn::Conn;

impl Conn<'_> {
    /// Tells the send stream how much it may hold unsent.
    pub fn bound_unsent(&mut self) {
        let low_water = self.options().unsent_low_water.unwrap_or(u32::MAX);
        self.sh.streams.set_unsent_low_water(self.slot, low_water);
        self.publish_sent();
    }

    /// SND.NXT has moved: tells the send stream, if the application wants its unsent bytes bounded.
    #[inline]
    pub fn publish_sent(&mut self) {
        if self.options().unsent_low_water.is_some() {
            self.tell_sent();
        }
    }

    #[cold]
    fn tell_sent(&mut self) {
        let start = self.hot.stream_start();
        let sent = self.hot.snd.nxt - start;
        self.sh.streams.note_sent(self.slot, sent);
        if self.sh.streams.app_wants_space(self.slot) {
            self.notify(Ready::WRITABLE);
        }
    }
}
