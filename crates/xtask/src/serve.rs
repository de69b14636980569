//! A static file server on localhost, with ranges: what the demo page needs, and no more.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// How long a connection may say nothing.
const IDLE: Duration = Duration::from_secs(60);
/// The longest request head, in bytes.
const MOST_HEAD: u64 = 16 << 10;

/// A folder, and where it is served.
pub struct Mount {
    /// The first part of its paths; empty for all others.
    pub prefix: &'static str,
    /// The folder.
    pub folder: PathBuf,
}

/// Listens on this port of localhost; where none is given, on the first free one from 8080 on.
pub fn listen(port: Option<u16>) -> Result<TcpListener> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    match port {
        Some(port) => bind(port).with_context(|| format!("cannot listen on port {port}")),
        None => (8080..8180)
            .find_map(|port| bind(port).ok())
            .context("no port from 8080 to 8179 is free: pass --port"),
    }
}

/// Serves until the process ends.
pub fn serve(listener: &TcpListener, mounts: &'static [Mount]) -> Result<()> {
    for stream in listener.incoming() {
        let stream = stream?;
        // A client that goes away is none of our concern.
        thread::spawn(move || answer(&stream, mounts));
    }
    Ok(())
}

/// Answers the requests of a connection, one after another.
fn answer(stream: &TcpStream, mounts: &[Mount]) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        let mut limited = (&mut reader).take(MOST_HEAD);
        while !head.ends_with("\r\n\r\n") {
            if limited.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        respond(&mut &*stream, &head, mounts)?;
    }
}

fn respond(out: &mut impl Write, head: &str, mounts: &[Mount]) -> io::Result<()> {
    let mut words = head.split_whitespace();
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    if method != "GET" && method != "HEAD" {
        return refuse(out, "405 Method Not Allowed");
    }
    let Some(path) = file_of(path, mounts) else {
        return refuse(out, "404 Not Found");
    };
    let Ok(mut file) = File::open(&path) else {
        return refuse(out, "404 Not Found");
    };
    let size = file.metadata()?.len();
    let range = header(head, "range").and_then(|value| range(value, size));
    let (from, to) = range.unwrap_or((0, size));
    let status = match range {
        None => "HTTP/1.1 200 OK".to_owned(),
        Some((from, to)) if from < to => {
            let last = to - 1;
            format!("HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {from}-{last}/{size}")
        }
        Some(_) => {
            format!("HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */{size}")
        }
    };
    let length = to - from;
    let content_type = content_type(&path);
    write!(
        out,
        "{status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\naccept-ranges: bytes\r\n\
         cache-control: no-cache\r\n\r\n"
    )?;
    if method == "GET" {
        file.seek(SeekFrom::Start(from))?;
        io::copy(&mut file.take(length), out)?;
    }
    out.flush()
}

fn refuse(out: &mut impl Write, status: &str) -> io::Result<()> {
    let length = status.len();
    write!(
        out,
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{status}"
    )
}

/// The file under a path. Only plain names are followed: no `..`, nothing hidden, no escapes.
fn file_of(path: &str, mounts: &[Mount]) -> Option<PathBuf> {
    let path = path.split(['?', '#']).next()?.strip_prefix('/')?;
    let path = if path.is_empty() { "index.html" } else { path };
    let is_plain = |part: &str| {
        !part.starts_with('.')
            && !part.is_empty()
            && part
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char))
    };
    if !path.split('/').all(is_plain) {
        return None;
    }
    let (first, rest) = path.split_once('/').unwrap_or(("", path));
    let named = mounts
        .iter()
        .find(|mount| !mount.prefix.is_empty() && mount.prefix == first)
        .map(|mount| mount.folder.join(rest));
    let file = match named {
        Some(file) => file,
        None => {
            let root = mounts.iter().find(|mount| mount.prefix.is_empty())?;
            root.folder.join(path)
        }
    };
    file.is_file().then_some(file)
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().skip(1);
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| field.trim().eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

/// `bytes=a-` or `bytes=a-b` as the half-open range that there is of it; other forms mean the whole.
fn range(value: &str, size: u64) -> Option<(u64, u64)> {
    let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
    let from: u64 = from.parse().ok()?;
    let to = match to {
        "" => size,
        last => last.parse::<u64>().ok()?.saturating_add(1).min(size),
    };
    Some((from.min(to), to))
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply to `head` over a folder that `test` has for itself.
    fn reply(test: &str, head: &str) -> (String, Vec<u8>) {
        let name = format!("foretoken-serve-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("models")).unwrap();
        std::fs::write(folder.join("index.html"), "<p>").unwrap();
        std::fs::write(folder.join("models").join("a.gguf"), b"0123456789").unwrap();
        std::fs::write(folder.join(".hidden"), "no").unwrap();
        let mount = |prefix, name: &str| Mount {
            prefix,
            folder: folder.join(name),
        };
        let mut out = Vec::new();
        respond(&mut out, head, &[mount("m", "models"), mount("", "")]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.as_bytes().to_vec())
    }

    #[test]
    fn files_come_whole_and_in_parts() {
        let (head, body) = reply("files", "GET / HTTP/1.1\r\n\r\n");
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains("text/html"),
            "{head}"
        );
        assert_eq!(body, b"<p>");
        for (range, status, bytes) in [
            ("bytes=2-4", "206 ", &b"234"[..]),
            ("bytes=7-", "206 ", b"789"),
            ("bytes=7-99", "206 ", b"789"),
            ("bytes=10-", "416 ", b""),
            ("bytes=99-", "416 ", b""),
            ("lines=1-2", "200 ", b"0123456789"),
        ] {
            let head = format!("GET /m/a.gguf HTTP/1.1\r\nRange: {range}\r\n\r\n");
            let (head, body) = reply("files", &head);
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status}")),
                "{range}: {head}"
            );
            assert_eq!(body, bytes, "{range}");
        }
        let (head, body) = reply("files", "HEAD /m/a.gguf HTTP/1.1\r\n\r\n");
        assert!(head.contains("content-length: 10"), "{head}");
        assert_eq!(body, b"");
    }

    #[test]
    fn nothing_outside_is_served() {
        for path in [
            "/../x",
            "/m/../index.html",
            "/.hidden",
            "/%2e%2e/x",
            "/m//a.gguf",
            "/m/",
            "x",
            "/absent",
        ] {
            let (head, _) = reply("outside", &format!("GET {path} HTTP/1.1\r\n\r\n"));
            assert!(head.starts_with("HTTP/1.1 404 "), "{path}: {head}");
        }
        let (head, _) = reply("outside", "POST / HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    }
}
