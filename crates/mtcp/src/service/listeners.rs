//! The listeners of all programs.

use std::collections::HashMap;
use std::net::SocketAddr;

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
    /// Where it listens, as its program has said, with the port that it got.
    pub(super) local: SocketAddr,
    /// Whose it is.
    pub(super) uid: u32,
    /// Which socket of the kernel stands for it, if one does (SO_COOKIE).
    pub(super) cookie: Option<u64>,
}

/// By the token that the stack knows them by. No search takes longer where there are many.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: Vec<Option<Listener>>,
    /// Tokens that none has.
    free: Vec<u32>,
    /// By the slot of the stack's name, the token.
    tokens: Vec<u32>,
    /// By port, who listens there: users, with how many listeners each has.
    users: HashMap<u16, Vec<(u32, u32)>>,
}

impl Listeners {
    /// A token that none has, the same until one is [set](Self::set).
    pub(super) fn free_token(&mut self) -> Token {
        if let Some(&token) = self.free.last() {
            return Token(token);
        }
        let token = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(None);
        self.free.push(token);
        Token(token)
    }

    /// The one with the token that is free.
    pub(super) fn set(&mut self, listener: Listener) {
        let Some(token) = self.free.pop() else {
            return;
        };
        if let Some(place) = self.all.get_mut(token as usize) {
            *place = Some(listener);
        }
        self.count(&listener);
        let at = listener.id.slot as usize;
        if at >= self.tokens.len() {
            self.tokens.resize(at + 1, u32::MAX);
        }
        if let Some(place) = self.tokens.get_mut(at) {
            *place = token;
        }
    }

    fn count(&mut self, listener: &Listener) {
        let users = self.users.entry(listener.local.port()).or_default();
        match users.iter_mut().find(|(uid, _)| *uid == listener.uid) {
            Some((_, count)) => *count += 1,
            None => users.push((listener.uid, 1)),
        }
    }

    fn discount(&mut self, listener: &Listener) {
        let port = listener.local.port();
        let Some(users) = self.users.get_mut(&port) else {
            return;
        };
        for (_, count) in users.iter_mut().filter(|(uid, _)| *uid == listener.uid) {
            *count -= 1;
        }
        users.retain(|(_, count)| *count > 0);
        if users.is_empty() {
            self.users.remove(&port);
        }
    }

    /// Whether a listener of this user may share the port with others: it is named, and nobody
    /// else's.
    pub(super) fn may_share(&self, port: u16, uid: u32) -> bool {
        let users = self.users.get(&port).map(Vec::as_slice);
        let mut users = users.unwrap_or_default().iter();
        port != 0 && users.all(|(user, _)| *user == uid)
    }

    /// Whether somebody listens there by the kernel's socket of this cookie.
    pub(super) fn has_socket(&self, local: SocketAddr, cookie: u64) -> bool {
        let mut all = self.all.iter().flatten();
        all.any(|one| one.cookie == Some(cookie) && one.local == local)
    }

    /// Whether another one is there by the same socket of the kernel.
    pub(super) fn has_twin(&self, listener: &Listener) -> bool {
        let mut all = self.all.iter().flatten();
        let twin = |one: &Listener| (one.cookie, one.local) == (listener.cookie, listener.local);
        listener.cookie.is_some() && all.any(|one| one.id != listener.id && twin(one))
    }

    /// The one with this token.
    pub(super) fn get(&self, token: Token) -> Option<Listener> {
        *self.all.get(token.0 as usize)?
    }

    fn token(&self, id: ListenerId) -> Option<u32> {
        let token = *self.tokens.get(id.slot as usize)?;
        let listener = (*self.all.get(token as usize)?)?;
        (listener.id == id).then_some(token)
    }

    /// The program calls it by another token from now on. Returns the one that the stack knows it
    /// by.
    pub(super) fn rename(&mut self, id: ListenerId, token: Token) -> Option<Token> {
        let ours = self.token(id)?;
        self.all.get_mut(ours as usize)?.as_mut()?.token = token;
        Some(Token(ours))
    }

    /// Whether it is this channel's.
    pub(super) fn is_of(&self, channel: ChannelId, id: ListenerId) -> bool {
        self.named(id).is_some_and(|one| one.channel == channel)
    }

    /// It is no more.
    pub(super) fn remove(&mut self, id: ListenerId) {
        let Some(token) = self.token(id) else {
            return;
        };
        let listener = self.all.get_mut(token as usize).and_then(Option::take);
        if let Some(listener) = listener {
            self.free.push(token);
            self.discount(&listener);
        }
    }

    /// Those of a channel.
    pub(super) fn of_channel(&self, channel: ChannelId) -> Vec<Listener> {
        let all = self.all.iter().flatten();
        all.filter(|one| one.channel == channel).copied().collect()
    }

    /// The one of this name.
    pub(super) fn named(&self, id: ListenerId) -> Option<Listener> {
        self.get(Token(self.token(id)?))
    }

    /// It is no program's any more.
    pub(super) fn disown(&mut self, id: ListenerId) {
        if let Some(token) = self.token(id)
            && let Some(listener) = self.all.get_mut(token as usize).and_then(Option::as_mut)
        {
            listener.channel = ChannelId::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(channel: u32, slot: u32, generation: u32) -> Listener {
        Listener {
            channel: ChannelId(channel),
            id: ListenerId { slot, generation },
            token: Token(100 + slot),
            local: "10.0.0.1:80".parse().unwrap(),
            uid: channel,
            cookie: None,
        }
    }

    #[test]
    fn a_listener_is_found_by_either_name_and_is_its_channels() {
        let mut all = Listeners::default();
        let [a, b, c] = [listener(0, 5, 1), listener(1, 2, 1), listener(0, 9, 4)];
        for one in [a, b, c] {
            let token = all.free_token();
            assert_eq!(all.free_token(), token, "nothing took it");
            all.set(one);
            assert_eq!(all.get(token).unwrap().token, one.token);
        }
        assert!(all.is_of(ChannelId(0), a.id) && !all.is_of(ChannelId(1), a.id));
        // Of an earlier life of the slot.
        assert!(!all.is_of(ChannelId(0), listener(0, 5, 0).id));
        all.remove(b.id);
        assert!(!all.is_of(ChannelId(1), b.id));
        all.remove(b.id);
        assert_eq!(all.free_token(), Token(1));
        all.disown(a.id);
        assert!(!all.is_of(ChannelId(0), a.id) && all.named(a.id).is_some());
        let left: Vec<_> = all
            .of_channel(ChannelId(0))
            .iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(left, [c.id]);
        for id in [a.id, c.id] {
            all.remove(id);
        }
        assert!(all.get(Token(0)).is_none() && all.get(Token(2)).is_none());
        assert!(all.users.is_empty());
    }

    #[test]
    fn users_do_not_share_a_port() {
        let mut all = Listeners::default();
        assert!(all.may_share(80, 7) && !all.may_share(0, 7));
        let [a, b] = [listener(7, 0, 1), listener(7, 1, 1)];
        for one in [a, b] {
            all.free_token();
            all.set(one);
        }
        assert!(all.may_share(80, 7) && !all.may_share(80, 8) && all.may_share(81, 8));
        all.remove(a.id);
        assert!(!all.may_share(80, 8));
        all.remove(b.id);
        assert!(all.may_share(80, 8));
    }
}
