use std::thread;

use super::door::{Answer, Door, Terms, ask};
use super::*;

fn config() -> Config {
    let mut config = Config::default();
    config.set("io", "afxdp:none").unwrap();
    config.set("addr", "10.0.0.2/24").unwrap();
    config.set("max_concurrency", "100").unwrap();
    config
}

/// A name that no other test has.
fn name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

#[test]
fn nobody_is_asked_where_nobody_is() {
    assert!(matches!(ask(&name("nobody"), None), Answer::Nobody));
}

#[test]
fn an_interface_has_one_door() {
    let name = name("one");
    let door = Door::open(&name).unwrap();
    assert!(door.accept().is_none() && Door::open(&name).is_none());
    drop(door);
    assert!(Door::open(&name).is_some());
}

#[test]
fn the_door_of_a_dead_executor_is_replaced() {
    let name = name("dead");
    let path = door::path(&name).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let door = Door::open(&name).unwrap();
    assert!(path.exists());
    drop(door);
    assert!(!path.exists());
}

#[test]
fn a_directory_that_others_may_use_is_none() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("mtcp");
    assert_eq!(door::own(&path).unwrap(), path);
    for mode in [0o755, 0o770, 0o707] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert!(door::own(&path).is_err(), "{mode:o}");
    }
    let link = parent.path().join("link");
    std::os::unix::fs::symlink(parent.path(), &link).unwrap();
    assert!(door::own(&link).is_err());
}

/// What a program that starts hears, asking with these terms, when the executor does this.
fn heard(test: &str, terms: Option<Terms>, answer: impl FnOnce(Guest) + Send + 'static) -> Answer {
    let name = name(test);
    let door = Door::open(&name).unwrap();
    let executor = thread::spawn(move || {
        let mut fds = [door.poll()];
        poll::sleep(&mut fds, None).unwrap();
        answer(door.accept().unwrap());
    });
    let heard = ask(&name, terms.as_ref());
    executor.join().unwrap();
    heard
}

#[test]
fn what_is_left_is_given() {
    let (terms, holdings) = (Terms::of(&config()), config().holdings());
    let answer = heard("given", Some(terms), move |guest| {
        assert_eq!(guest.terms(), Some(&terms));
        let testaments = Testaments::new(1, holdings).unwrap();
        guest.give(testaments.fds().unwrap()).unwrap();
    });
    let Answer::Left(fds) = answer else {
        panic!("{answer:?}");
    };
    assert!(Testaments::found(fds, holdings).unwrap().are_empty());
}

#[test]
fn who_is_refused_knows_from_who_waits_for_the_end() {
    let refused = heard("refused", None, |guest| {
        assert!(guest.terms().is_none());
        guest.refuse();
    });
    assert!(matches!(refused, Answer::Nobody));
    assert!(matches!(heard("ended", None, drop), Answer::Ended));
}

#[test]
fn terms_are_those_of_the_memory() {
    let mut other = config();
    other.set("max_concurrency", "101").unwrap();
    assert_ne!(Terms::of(&config()), Terms::of(&other));
    other = config();
    other.processes = 2;
    assert_ne!(Terms::of(&config()), Terms::of(&other));
}
