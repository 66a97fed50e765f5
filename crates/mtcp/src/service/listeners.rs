//! The listeners of all programs.

use mtcp_core::{ListenerId, Token};

use super::owners::ChannelId;

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    pub(super) channel: ChannelId,
    /// Its name with the stack.
    pub(super) id: ListenerId,
    /// Its name with the program.
    pub(super) token: Token,
}

/// By the token that the stack knows them by.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: Vec<Option<Listener>>,
}

impl Listeners {
    /// A token that none has.
    pub(super) fn free_token(&mut self) -> Token {
        let free = self.all.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        Token(u32::try_from(at).unwrap_or(u32::MAX))
    }

    pub(super) fn set(&mut self, token: Token, listener: Listener) {
        if let Some(place) = self.all.get_mut(token.0 as usize) {
            *place = Some(listener);
        }
    }

    /// The one with this token.
    pub(super) fn get(&self, token: Token) -> Option<Listener> {
        *self.all.get(token.0 as usize)?
    }

    /// Whether it is this channel's.
    pub(super) fn is_of(&self, channel: ChannelId, id: ListenerId) -> bool {
        self.of(channel).any(|one| one == id)
    }

    /// Those of a channel.
    pub(super) fn of(&self, channel: ChannelId) -> impl Iterator<Item = ListenerId> {
        let all = self.all.iter().flatten();
        all.filter_map(move |one| (one.channel == channel).then_some(one.id))
    }

    /// It is no more.
    pub(super) fn remove(&mut self, id: ListenerId) {
        let is_it = |place: &&mut Option<Listener>| place.is_some_and(|one| one.id == id);
        if let Some(place) = self.all.iter_mut().find(is_it) {
            *place = None;
        }
    }

    /// A channel has ended.
    pub(super) fn remove_all(&mut self, channel: ChannelId) {
        for place in &mut self.all {
            if place.is_some_and(|one| one.channel == channel) {
                *place = None;
            }
        }
    }
}
