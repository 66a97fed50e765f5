//! Programs that this one executes. Those that the library cannot be loaded into, or whose
//! environment does not name it, use the kernel's sockets: that is told, once for each. One that
//! gets a listener of ours is given what names it.

use std::ffi::{CStr, CString, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;

use mtcp::{Events, Owners};

use crate::diagnostics::Carried;
use crate::engine::{self, Engine};
use crate::queue::tell_owners;
use crate::rules::{self, Rules, rules};
use crate::slots::{self, Slot};
use crate::socket::Body;
use crate::{diagnostics, inside, real, told};

/// What a program is executed with.
pub(crate) struct Environment {
    /// Another one than the program has said.
    _values: Vec<CString>,
    pointers: Vec<*const c_char>,
    said: *const *const c_char,
    _stderr: Option<Carried>,
}

impl Environment {
    fn as_said(said: *const *const c_char) -> Self {
        Self {
            _values: Vec::new(),
            pointers: Vec::new(),
            said,
            _stderr: None,
        }
    }

    /// That of a program which loads this library: with these in front, and none of the same names
    /// behind.
    fn with(mut values: Vec<CString>, said: *const *const c_char) -> Self {
        let (stderr, value) = Carried::new().unzip();
        if values.is_empty() && value.is_none() && !each(said).any(diagnostics::is_variable) {
            return Self::as_said(said);
        }
        values.extend(value);
        let own = |value: &&CStr| {
            !diagnostics::is_variable(value) && !values.iter().any(|one| name(one) == name(value))
        };
        let rest = each(said).filter(own).map(CStr::as_ptr);
        let mut pointers: Vec<_> = values
            .iter()
            .map(|value| value.as_ptr())
            .chain(rest)
            .collect();
        pointers.push(ptr::null());
        Self {
            _values: values,
            pointers,
            said,
            _stderr: stderr,
        }
    }

    pub(crate) fn as_ptr(&self) -> *const *const c_char {
        if self.pointers.is_empty() {
            self.said
        } else {
            self.pointers.as_ptr()
        }
    }
}

/// The name in `NAME=value`.
fn name(value: &CStr) -> &[u8] {
    let bytes = value.to_bytes();
    bytes.split(|byte| *byte == b'=').next().unwrap_or(bytes)
}

/// The texts of a list that ends with NULL.
fn each<'a>(list: *const *const c_char) -> impl Iterator<Item = &'a CStr> {
    let mut at = list;
    std::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        // SAFETY: the program's promise: a list of texts that ends with NULL, where this has
        // stopped.
        unsafe {
            let text = *at;
            if text.is_null() {
                return None;
            }
            at = at.add(1);
            Some(CStr::from_ptr(text))
        }
    })
}

/// What becomes of the program that executes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Stays,
    /// It ends, and what it has of the stack with it.
    Ends,
}

/// Looks at a program that is about to be executed by `word`, which is searched for as a shell does
/// or is a path. Returns its environment.
///
/// # Safety
/// `word` is a text, `said` a list of texts that ends with NULL, or NULL.
pub(crate) unsafe fn examine(
    (word, is_searched): (*const c_char, bool),
    said: *const *const c_char,
    parent: Parent,
) -> Environment {
    let Some(rules) = rules().filter(|_| !word.is_null()) else {
        return Environment::as_said(said);
    };
    inside::run(|| {
        // SAFETY: the caller's promise.
        let word = OsStr::from_bytes(unsafe { CStr::from_ptr(word) }.to_bytes());
        let file = loader::resolve(&path(word, is_searched));
        let Some(file) = file.filter(|file| file.is_file()) else {
            return Environment::as_said(said);
        };
        match parent {
            Parent::Ends => {
                hand_on();
                tell_ended(rules, &file);
            }
            Parent::Stays => share_listeners(),
        }
        if let Some(obstacle) = loader::obstacle(&file) {
            let text = format!("{obstacle}: its connections are the kernel's");
            told::tell(rules, &text);
            return Environment::as_said(said);
        }
        if names_us(said) {
            return Environment::with(Vec::new(), said);
        }
        if passes_listener() {
            return Environment::with(rules.carried(each(said)), said);
        }
        let text = format!(
            "{} is executed without {} and {} in its environment: its connections are the kernel's",
            file.display(),
            rules::PRELOAD,
            rules::SETTINGS
        );
        told::tell(rules, &text);
        Environment::as_said(said)
    })
}

/// A program that is started beside this one has the listeners whose descriptors outlast `exec`.
fn share_listeners() {
    let Ok(mut engine) = engine::lock() else {
        return;
    };
    for (fd, slot) in slots::used(0, u32::MAX) {
        if let Slot::Socket(index) = slot
            && outlasts(fd)
        {
            engine.sockets.share_listener(index);
        }
    }
}

/// Another program is to have the connections whose descriptors outlast this one.
fn hand_on() {
    let Ok(mut engine) = engine::lock() else {
        return;
    };
    let mut indices: Vec<u32> = slots::used(0, u32::MAX)
        .filter_map(|(fd, slot)| match slot {
            Slot::Socket(index) => outlasts(fd).then_some(index),
            _ => None,
        })
        .collect();
    indices.sort_unstable();
    indices.dedup();
    for index in indices {
        engine.pair_off(index);
    }
}

/// Another program is to have a descriptor: a connection of ours that it names becomes the
/// kernel's, by which anybody can have it.
pub(crate) fn hand_on_one(fd: c_int) {
    if let Slot::Socket(index) = slots::look(fd)
        && let Ok(mut engine) = engine::lock()
    {
        engine.pair_off(index);
    }
}

/// Tells what ends with this program when `file` is executed in its place.
fn tell_ended(rules: &Rules, file: &Path) {
    let lost = engine::lock().map(|mut engine| {
        // Its queues are free as soon as the other program is there.
        tell_owners(engine.stack.prepared(), Owners::notify);
        ends_with_exec(&mut engine)
    });
    if let Ok(Some(lost)) = lost {
        let text = format!(
            "{} is executed in place of the program whose stack this is: {lost} are lost",
            file.display()
        );
        told::tell(rules, &text);
    }
}

/// A word without a slash is a file of this directory where it is not searched for.
fn path(word: &OsStr, is_searched: bool) -> OsString {
    if is_searched || word.as_bytes().contains(&b'/') {
        return word.to_owned();
    }
    OsString::from_vec([b"./", word.as_bytes()].concat())
}

/// Whether the environment loads this library, with its settings.
fn names_us(said: *const *const c_char) -> bool {
    let has = |wanted: &str| each(said).find(|value| name(value) == wanted.as_bytes());
    let loads = has(rules::PRELOAD).is_some_and(|value| {
        let needle = rules::LIBRARY.as_bytes();
        value
            .to_bytes()
            .windows(needle.len())
            .any(|part| part == needle)
    });
    loads && has(rules::SETTINGS).is_some()
}

/// Whether a listener of ours outlasts `exec`.
fn passes_listener() -> bool {
    engine::lock().is_ok_and(|engine| passes_listener_of(&engine))
}

/// The connections of a stack that is this process's own, in words.
fn ends_with_exec(engine: &mut Engine) -> Option<String> {
    if engine.is_borrowed() || engine.context().is_none() {
        return None;
    }
    if rules().is_some_and(Rules::is_attached) {
        // What outlasts this program is the other one's, and all else ends as it should.
        return None;
    }
    let bodies: Vec<_> = engine
        .sockets
        .iter()
        .map(|(_, socket)| socket.body)
        .collect();
    let opened = bodies.iter().filter(|body| matches!(body, Body::Stream(_)));
    let opened = opened.count();
    let waits = bodies.iter().any(|body| match body {
        Body::Listener { ours: Some(id), .. } => engine
            .context()
            .is_some_and(|context| context.ready(*id, Events::IN).contains(Events::IN)),
        _ => false,
    });
    match (opened, waits) {
        (0, false) => None,
        (0, true) => Some("connections that nobody has accepted".to_owned()),
        (opened, false) => Some(format!("its connections ({opened})")),
        (opened, true) => Some(format!(
            "its connections ({opened}) and those that nobody has accepted"
        )),
    }
}

fn passes_listener_of(engine: &Engine) -> bool {
    let listens = |index| {
        let socket = engine.sockets.get(index);
        socket.is_some_and(|socket| matches!(socket.body, Body::Listener { .. }))
    };
    slots::used(0, u32::MAX).any(|(fd, slot)| match slot {
        Slot::Socket(index) => listens(index) && outlasts(fd),
        _ => false,
    })
}

/// Whether a descriptor outlasts `exec`.
fn outlasts(fd: c_int) -> bool {
    // SAFETY: no memory is involved.
    let flags = unsafe { real::fcntl64(fd, libc::F_GETFD, 0) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}
