//! A plain client of key-value stores: enough of the protocols of Redis and memcached to compare
//! values.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use interop::client;
use interop::files::Noise;

/// A connection to a store.
#[derive(Debug)]
pub struct Store {
    stream: BufReader<TcpStream>,
}

impl Store {
    /// From the calling thread's namespace.
    pub fn open(to: SocketAddr) -> Self {
        Self {
            stream: BufReader::new(client::open(to).unwrap()),
        }
    }

    /// Writes all of this, without waiting for answers.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Reads a line, without its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Reads `count` bytes and the end of the line after them.
    fn block(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    }

    /// Redis: sets `count` values of `length` bytes in one pipeline, then reads and compares them
    /// in another.
    pub fn redis_round(&mut self, seed: u64, count: u64, length: usize) {
        let value = |number: u64| Noise::bytes(seed << 32 | number, length);
        for number in 0..count {
            let head = format!("*3\r\n$3\r\nSET\r\n$16\r\n{seed:08x}{number:08x}\r\n${length}\r\n");
            self.send(&[head.as_bytes(), &value(number), b"\r\n"].concat());
        }
        for number in 0..count {
            assert_eq!(self.line(), "+OK", "value {number}");
        }
        for number in 0..count {
            let get = format!("*2\r\n$3\r\nGET\r\n$16\r\n{seed:08x}{number:08x}\r\n");
            self.send(get.as_bytes());
        }
        for number in 0..count {
            assert_eq!(self.line(), format!("${length}"));
            assert!(self.block(length) == value(number), "value {number}");
        }
    }

    /// memcached: the same, a value at a time.
    pub fn memcached_round(&mut self, seed: u64, count: u64, length: usize) {
        let value = |number: u64| Noise::bytes(seed << 32 | number, length);
        for number in 0..count {
            let head = format!("set {seed}-{number} 7 0 {length}\r\n");
            self.send(&[head.as_bytes(), &value(number), b"\r\n"].concat());
            assert_eq!(self.line(), "STORED", "value {number}");
        }
        for number in 0..count {
            self.send(format!("get {seed}-{number}\r\n").as_bytes());
            assert_eq!(self.line(), format!("VALUE {seed}-{number} 7 {length}"));
            assert!(self.block(length) == value(number), "value {number}");
            assert_eq!(self.line(), "END");
        }
    }
}
