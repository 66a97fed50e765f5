//! Answers to complete request heads.

use std::os::fd::OwnedFd;

use http1::conditional::{Selection, Version, select};
use http1::request::{Method, Request};
use http1::{Framing, Refusal, date, media, path, response};

use super::cache::MAX_FILE;
use super::conn::{After, Conn, Streaming, read_exactly};
use super::receive::Receiving;
use super::root::{Opened, listing};
use super::server::Now;
use super::upload::Upload;
use super::web::{Web, push_connection};

/// Bodies of requests that have no use for one are read and dropped up to this size, bytes.
const MAX_DISCARD: u64 = 64 * 1024;

impl Web {
    /// Begins the answer to `request`: a head in the outbox at least.
    pub(crate) fn answer(&mut self, conn: &mut Conn, request: &Request<'_>, now: Now) {
        match request.method {
            Method::Get | Method::Head => {
                self.discard_body(conn, request);
                let keep = self.keeps(request) && conn.after == After::KeepAlive;
                if let Err(Refusal(status)) = self.get(conn, request, keep, now) {
                    self.error(
                        status,
                        request.method == Method::Get,
                        keep,
                        request.http11,
                        now,
                    );
                }
                if !keep && conn.after == After::KeepAlive {
                    conn.after = After::Close;
                }
            }
            Method::Put => {
                if let Err(refusal) = self.put(conn, request, now) {
                    self.reject(conn, request, refusal, now);
                }
            }
            Method::Other => self.reject(conn, request, Refusal(405), now),
            Method::Unknown => self.reject(conn, request, Refusal(501), now),
        }
    }

    /// An error instead of what was asked; the connection goes on if the request's body, if any,
    /// can be skipped.
    fn reject(&mut self, conn: &mut Conn, request: &Request<'_>, refusal: Refusal, now: Now) {
        self.discard_body(conn, request);
        let keep = self.keeps(request) && conn.after == After::KeepAlive;
        self.error(refusal.0, true, keep, request.http11, now);
        if !keep && conn.after == After::KeepAlive {
            conn.after = After::Close;
        }
    }

    /// Sees to it that a body that nobody wants is skipped, or the connection ended.
    fn discard_body(&self, conn: &mut Conn, request: &Request<'_>) {
        let small = !matches!(request.framing, Framing::Length(length) if length > MAX_DISCARD);
        if matches!(request.framing, Framing::Empty | Framing::Length(0)) {
            return;
        }
        if small && !request.expect_continue && self.keeps(request) {
            conn.receiving =
                Receiving::new(request.framing, None, MAX_DISCARD, true, request.http11)
                    .map(Box::new);
        } else {
            conn.after = After::Linger;
        }
    }

    fn get(
        &mut self,
        conn: &mut Conn,
        request: &Request<'_>,
        keep: bool,
        now: Now,
    ) -> Result<(), Refusal> {
        if request.conditions.is_empty() && self.cached(request, None, keep, now) {
            return Ok(());
        }
        path::decode(request.target, &mut self.path)?;
        match self.root.open(&self.path)? {
            Opened::File(file, version) => self.file(conn, request, file, version, keep, now),
            Opened::Directory(directory) => self.directory(conn, request, directory, keep, now),
        }
    }

    /// Answers from the cache if it can: with a fresh entry, or one of this `version`.
    fn cached(
        &mut self,
        request: &Request<'_>,
        version: Option<&Version>,
        keep: bool,
        now: Now,
    ) -> bool {
        let entry = match version {
            None => self.cache.fresh(key(request), now.millis),
            Some(version) => self.cache.revalidate(key(request), version, now.millis),
        };
        let Some(entry) = entry else { return false };
        let out = &mut self.outbox.out;
        out.extend_from_slice(&entry.head);
        push_connection(out, &mut self.date, keep, request.http11, now);
        out.extend_from_slice(b"\r\n");
        if request.method == Method::Get {
            out.extend_from_slice(&entry.body);
        }
        self.served += 1;
        true
    }

    fn file(
        &mut self,
        conn: &mut Conn,
        request: &Request<'_>,
        file: OwnedFd,
        version: Version,
        keep: bool,
        now: Now,
    ) -> Result<(), Refusal> {
        let get = request.method == Method::Get;
        match select(&request.conditions, &version, get) {
            Selection::Full if version.length <= MAX_FILE => {
                self.small(request, &file, version, keep, now)
            }
            Selection::Full => {
                let range = (0, version.length);
                self.head_of_file(200, &version, range, keep, request.http11, now);
                self.stream(conn, file, range, get);
                Ok(())
            }
            Selection::Part { first, last } => {
                let range = (first, last - first + 1);
                self.head_of_file(206, &version, range, keep, request.http11, now);
                self.stream(conn, file, range, get);
                Ok(())
            }
            Selection::NotModified => {
                self.begin(304, keep, request.http11, now);
                response::push_field(&mut self.outbox.out, "ETag", version.etag.as_bytes());
                response::push_field(
                    &mut self.outbox.out,
                    "Last-Modified",
                    date::format(version.modified).as_bytes(),
                );
                self.outbox.out.extend_from_slice(b"\r\n");
                Ok(())
            }
            Selection::Unsatisfiable => {
                self.begin(416, keep, request.http11, now);
                let all = format!("bytes */{}", version.length);
                response::push_field(&mut self.outbox.out, "Content-Range", all.as_bytes());
                response::push_length(&mut self.outbox.out, 0);
                self.outbox.out.extend_from_slice(b"\r\n");
                Ok(())
            }
            Selection::Failed => Err(Refusal(412)),
        }
    }

    fn head_of_file(
        &mut self,
        status: u16,
        version: &Version,
        range: (u64, u64),
        keep: bool,
        http11: bool,
        now: Now,
    ) {
        self.begin(status, keep, http11, now);
        let out = &mut self.outbox.out;
        push_version(out, version, &media::content_type(&self.path));
        if status == 206 {
            let part = format!(
                "bytes {}-{}/{}",
                range.0,
                range.0 + range.1 - 1,
                version.length
            );
            response::push_field(out, "Content-Range", part.as_bytes());
        }
        response::push_length(out, range.1);
        out.extend_from_slice(b"\r\n");
    }

    fn stream(&self, conn: &mut Conn, file: OwnedFd, (offset, left): (u64, u64), get: bool) {
        if get && left > 0 {
            conn.file = Some(Streaming { file, offset, left });
        }
    }

    /// A file that fits in one write: read whole, cached for the next request.
    fn small(
        &mut self,
        request: &Request<'_>,
        file: &OwnedFd,
        version: Version,
        keep: bool,
        now: Now,
    ) -> Result<(), Refusal> {
        if self.cached(request, Some(&version), keep, now) {
            return Ok(());
        }
        let mut body = vec![0; usize::try_from(version.length).map_err(|_| Refusal(500))?];
        read_exactly(file, &mut body, 0).map_err(|_| Refusal(500))?;
        let mut head = Vec::with_capacity(256);
        response::push_status(&mut head, 200);
        push_version(&mut head, &version, &media::content_type(&self.path));
        response::push_length(&mut head, version.length);
        let out = &mut self.outbox.out;
        out.extend_from_slice(&head);
        push_connection(out, &mut self.date, keep, request.http11, now);
        out.extend_from_slice(b"\r\n");
        if request.method == Method::Get {
            out.extend_from_slice(&body);
        }
        self.served += 1;
        self.cache
            .insert(key(request), version, head, body, now.millis);
        Ok(())
    }

    fn directory(
        &mut self,
        conn: &mut Conn,
        request: &Request<'_>,
        directory: OwnedFd,
        keep: bool,
        now: Now,
    ) -> Result<(), Refusal> {
        if !self.path.is_empty() && !self.path.ends_with(b"/") {
            self.redirect(request, keep, now);
            return Ok(());
        }
        let length = self.path.len();
        self.path.extend_from_slice(b"index.html");
        match self.root.open(&self.path) {
            Ok(Opened::File(file, version)) => self.file(conn, request, file, version, keep, now),
            Ok(Opened::Directory(_)) | Err(Refusal(404)) => {
                self.path.truncate(length);
                self.list(request, directory, keep, now)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Relative links work only below a path that ends in a slash. The path is clean, so it cannot
    /// name another host.
    fn redirect(&mut self, request: &Request<'_>, keep: bool, now: Now) {
        let mut location = b"/".to_vec();
        path::encode(&self.path, &mut location);
        location.push(b'/');
        self.begin(301, keep, request.http11, now);
        response::push_field(&mut self.outbox.out, "Location", &location);
        response::push_length(&mut self.outbox.out, 0);
        self.outbox.out.extend_from_slice(b"\r\n");
    }

    fn list(
        &mut self,
        request: &Request<'_>,
        directory: OwnedFd,
        keep: bool,
        now: Now,
    ) -> Result<(), Refusal> {
        let page = listing(directory, &self.path)?;
        self.begin(200, keep, request.http11, now);
        response::push_field(
            &mut self.outbox.out,
            "Content-Type",
            b"text/html; charset=utf-8",
        );
        response::push_length(&mut self.outbox.out, page.len() as u64);
        self.outbox.out.extend_from_slice(b"\r\n");
        if request.method == Method::Get {
            self.outbox.out.extend_from_slice(page.as_bytes());
        }
        Ok(())
    }

    /// Begins an upload; the answer comes when all of it has arrived.
    fn put(&mut self, conn: &mut Conn, request: &Request<'_>, now: Now) -> Result<(), Refusal> {
        let root = self.uploads.as_ref().ok_or(Refusal(405))?;
        if request.framing == Framing::Empty {
            return Err(Refusal(411));
        }
        if matches!(request.framing, Framing::Length(length) if length > self.settings.max_upload) {
            return Err(Refusal(413));
        }
        path::decode(request.target, &mut self.path)?;
        let existing = match root.open(&self.path) {
            Ok(Opened::File(_, version)) => Some(version),
            _ => None,
        };
        let allowed = match &existing {
            Some(version) => matches!(select(&request.conditions, version, false), Selection::Full),
            None => request.conditions.if_match.is_none(),
        };
        if !allowed {
            return Err(Refusal(412));
        }
        self.uploads_begun += 1;
        let upload = Upload::begin(root, &self.path, self.uploads_begun)?;
        let keep = self.keeps(request);
        conn.receiving = Receiving::new(
            request.framing,
            Some(upload),
            self.settings.max_upload,
            keep,
            request.http11,
        )
        .map(Box::new);
        if request.expect_continue {
            self.outbox
                .out
                .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        if conn
            .receiving
            .as_ref()
            .is_some_and(|receiving| receiving.done())
        {
            self.received(conn, now);
        }
        Ok(())
    }

    /// Takes body bytes from `input`; answers when they are all there. Returns how many it took.
    pub(crate) fn receive(
        &mut self,
        conn: &mut Conn,
        receiving: Box<Receiving>,
        input: &[u8],
        now: Now,
    ) -> usize {
        let receiving = conn.receiving.insert(receiving);
        match receiving.take(input) {
            Ok(used) => {
                if receiving.done() {
                    self.received(conn, now);
                }
                used
            }
            Err(refusal) if receiving.upload.is_some() => {
                self.refuse(conn, refusal, now);
                input.len()
            }
            Err(_) => {
                // Answered already: this was a body that nobody wanted.
                conn.receiving = None;
                conn.after = After::Linger;
                input.len()
            }
        }
    }

    fn received(&mut self, conn: &mut Conn, now: Now) {
        let Some(receiving) = conn.receiving.take() else {
            return;
        };
        let Receiving {
            upload: Some(upload),
            keep_alive,
            http11,
            ..
        } = *receiving
        else {
            return;
        };
        let keep = keep_alive && !self.stopping;
        match upload.commit() {
            Ok(replaced) => {
                self.begin(if replaced { 204 } else { 201 }, keep, http11, now);
                if !replaced {
                    response::push_length(&mut self.outbox.out, 0);
                }
                self.outbox.out.extend_from_slice(b"\r\n");
            }
            Err(Refusal(status)) => self.error(status, true, keep, http11, now),
        }
        if !keep {
            conn.after = After::Close;
        }
    }
}

/// What the cache knows the file by: the target without the query, which does not change the file.
fn key<'b>(request: &Request<'b>) -> &'b [u8] {
    request
        .target
        .split(|byte| *byte == b'?')
        .next()
        .unwrap_or_default()
}

/// The fields that describe a file.
fn push_version(out: &mut Vec<u8>, version: &Version, media: &str) {
    response::push_field(out, "Content-Type", media.as_bytes());
    response::push_field(
        out,
        "Last-Modified",
        date::format(version.modified).as_bytes(),
    );
    response::push_field(out, "ETag", version.etag.as_bytes());
    response::push_field(out, "Accept-Ranges", b"bytes");
}
