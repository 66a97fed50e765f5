//! Ends of connections, and readers and writers that take their time.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use interop::files::Noise;
use interop::lab::{PORT, listening, url};
use interop::{Family, Gate, Kind, Lab, Process, client};

const BIG: usize = 5_000_000;
const WITHIN: Duration = Duration::from_secs(60);

fn lab(kind: Kind) -> Lab {
    let lab = Lab::new(kind);
    std::fs::write(lab.www().join("big"), Noise::bytes(9, BIG)).unwrap();
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    lab
}

fn raw_server(lab: &Lab) -> Process {
    listening(lab.mtcp(&["serve", "--raw", "64/64"]))
}

fn connect(lab: &Lab, family: Family) -> TcpStream {
    let to = SocketAddr::new(family.ours(), PORT);
    lab.peer().enter(|| client::open(to)).unwrap()
}

fn check_big(body: &[u8]) {
    let expected = Noise::bytes(9, BIG);
    assert_eq!(body.len(), expected.len());
    assert!(body == expected, "the bytes differ");
}

#[test]
fn a_client_that_has_sent_all_still_gets_its_answer() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        let server = lab.serve(&[]);
        for family in Family::BOTH {
            let mut stream = connect(&lab, family);
            client::ask(&mut stream, "/big").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            check_big(&client::answer(&mut stream).unwrap().body);
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        }
        server.stop();
        let server = raw_server(&lab);
        let mut stream = connect(&lab, Family::V4);
        stream.write_all(&[b'q'; 64]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.len(), 64);
        server.stop();
    }
}

#[test]
fn a_client_that_says_nothing_and_closes_is_let_go() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        let server = lab.serve(&[]);
        let mut stream = connect(&lab, Family::V4);
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        server.stop();
    }
}

#[test]
fn a_reader_that_stops_for_a_while_gets_everything() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        lab.peer().set("net/ipv4/tcp_rmem", "4096 16384 65536");
        let server = lab.serve(&[]);
        let mut stream = connect(&lab, Family::V4);
        client::ask(&mut stream, "/big").unwrap();
        thread::sleep(Duration::from_secs(3)); // the window closes; only probes go on
        check_big(&client::answer(&mut stream).unwrap().body);
        server.stop();
    }
}

#[test]
fn a_server_that_stops_reading_for_a_while_gets_everything() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        lab.peer().set("net/ipv4/tcp_rmem", "4096 16384 65536");
        let listener = listen(&lab);
        let body = lab.www().join("big");
        let slow = thread::spawn(move || slow_server(&listener));
        let url = url(Family::V4.peer(), "anything");
        let words = [
            "-n",
            "1",
            "--method",
            "PUT",
            "--body",
            body.to_str().unwrap(),
        ];
        lab.load(&[&[url.as_str()], &words[..]].concat(), WITHIN);
        check_big(&slow.join().unwrap());
    }
}

fn listen(lab: &Lab) -> TcpListener {
    let address = SocketAddr::new(Family::V4.peer(), PORT);
    lab.peer().enter(|| TcpListener::bind(address)).unwrap()
}

/// Takes one request, reads nothing of its body for a while; returns the body.
fn slow_server(listener: &TcpListener) -> Vec<u8> {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    thread::sleep(Duration::from_secs(3));
    let mut body = vec![0; BIG];
    stream.read_exact(&mut body).unwrap();
    stream
        .write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .unwrap();
    body
}

/// A kernel server that closes its direction first and waits for the client's end.
#[test]
fn a_server_that_closes_first_is_read_to_its_end() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        let listener = listen(&lab);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(WITHIN)).unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
            stream.write_all(&Noise::bytes(9, BIG)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            assert_eq!(
                stream.read(&mut request).unwrap(),
                0,
                "the client said more"
            );
        });
        let target = lab.files().join("target");
        let url = url(Family::V4.peer(), "");
        lab.load(
            &[&url, "-n", "1", "--output", target.to_str().unwrap()],
            WITHIN,
        );
        check_big(&std::fs::read(target).unwrap());
        server.join().unwrap();
    }
}

#[test]
fn clients_that_reset_do_no_harm() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        let server = lab.serve(&[]);
        for round in 0..50 {
            let mut stream = connect(&lab, Family::V4);
            client::ask(&mut stream, "/big").unwrap();
            if round % 2 == 0 {
                stream.read_exact(&mut [0; 10_000]).unwrap();
            }
            // Unread data in its buffer makes the kernel send a reset.
            drop(stream);
        }
        let mut stream = connect(&lab, Family::V6);
        client::ask(&mut stream, "/big").unwrap();
        check_big(&client::answer(&mut stream).unwrap().body);
        server.stop();
    }
}

#[test]
fn requests_in_pieces_and_in_a_row_are_answered_in_order() {
    let Some(_gate) = Gate::alone() else { return };
    for kind in Kind::ALL {
        let lab = lab(kind);
        let server = lab.serve(&[]);
        let mut stream = connect(&lab, Family::V4);
        for byte in b"GET /small HTTP/1.1\r\nHost: interop\r\n\r\n" {
            stream.write_all(&[*byte]).unwrap();
        }
        assert_eq!(client::answer(&mut stream).unwrap().body, b"small\n");
        for _ in 0..20 {
            client::ask(&mut stream, "/small").unwrap();
            assert_eq!(client::answer(&mut stream).unwrap().body, b"small\n");
        }
        server.stop();
    }
}
