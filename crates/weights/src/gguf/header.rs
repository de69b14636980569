//! [`HeaderReader`]: the header's bytes, one after another, through a small window.

use std::fmt::{Arguments, Write};

use crate::{ByteSource, WeightsError};

/// The window's size at the file's start, in bytes: a small header is one read.
const FIRST_WINDOW: u64 = 64 << 10;
/// Its size further on, once that much is a small part of what was read already: a network's round trips
/// would add up otherwise.
const LARGEST_WINDOW: u64 = 512 << 10;

/// Reads a header forwards. Knows how many bytes are left, and makes the errors that say where.
pub(super) struct HeaderReader<'s, S: ?Sized> {
    source: &'s S,
    len: u64,
    /// The bytes from `window_start` on, of which `at` were read.
    window: Vec<u8>,
    window_start: u64,
    at: usize,
    /// What is being read: `metadata key ...`, `tensor ...`.
    place: String,
}

impl<'s, S: ByteSource + ?Sized> HeaderReader<'s, S> {
    pub(super) fn new(source: &'s S) -> Self {
        Self {
            source,
            len: source.len(),
            window: Vec::new(),
            window_start: 0,
            at: 0,
            place: "the header".to_owned(),
        }
    }

    /// The source's name, for errors.
    pub(super) fn file(&self) -> String {
        self.source.name().to_owned()
    }

    /// The file's length.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.window_start.saturating_add(self.at as u64)
    }

    /// Bytes left in the file.
    pub(super) fn remaining(&self) -> u64 {
        self.len.saturating_sub(self.position())
    }

    /// Says what is read from now on.
    pub(super) fn set_place(&mut self, place: Arguments<'_>) {
        self.place.clear();
        // Writing to a string cannot fail.
        let _ = self.place.write_fmt(place);
    }

    /// The file contradicts the format: `problem` completes "<place> …".
    pub(super) fn malformed(&self, problem: String) -> WeightsError {
        WeightsError::Malformed {
            file: self.file(),
            place: self.place.clone(),
            problem,
        }
    }

    /// Fails unless `value` is at most `limit`.
    pub(super) fn check_limit(
        &self,
        what: &'static str,
        value: u64,
        limit: u64,
    ) -> Result<(), WeightsError> {
        if value <= limit {
            return Ok(());
        }
        Err(WeightsError::Limit {
            file: self.file(),
            place: self.place.clone(),
            what,
            value,
            limit,
        })
    }

    /// Fails unless the file still has `count` things of at least `each` bytes.
    pub(super) fn check_backed(&self, count: u64, each: u64) -> Result<(), WeightsError> {
        let available = self.remaining();
        let needed = count.saturating_mul(each);
        if needed <= available {
            return Ok(());
        }
        Err(WeightsError::Truncated {
            file: self.file(),
            place: self.place.clone(),
            offset: self.position(),
            needed,
            available,
        })
    }

    /// A number that the metadata's limits keep within 32 bits.
    pub(super) fn index(&self, what: &'static str, value: u64) -> Result<u32, WeightsError> {
        self.check_limit(what, value, u64::from(u32::MAX))?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Reserves room for exactly `count` more elements.
    pub(super) fn reserve<T>(&self, vec: &mut Vec<T>, count: usize) -> Result<(), WeightsError> {
        vec.try_reserve_exact(count)
            .map_err(|_| WeightsError::OutOfMemory {
                file: self.file(),
                place: self.place.clone(),
                bytes: (count as u64).saturating_mul(size_of::<T>() as u64),
            })
    }

    /// Reserves room for `count` more elements: by doubling, as a vector grows, but never for more than the
    /// rest of the file could fill with elements of `each` bytes.
    pub(super) fn grow<T>(
        &self,
        vec: &mut Vec<T>,
        count: usize,
        each: u64,
    ) -> Result<(), WeightsError> {
        if vec.capacity() - vec.len() >= count {
            return Ok(());
        }
        let could_follow = usize::try_from(self.remaining() / each).unwrap_or(usize::MAX);
        self.reserve(vec, count.max(vec.capacity().min(could_follow)))
    }

    /// The next `N` bytes (a few).
    pub(super) async fn take<const N: usize>(&mut self) -> Result<[u8; N], WeightsError> {
        if self.window.len() - self.at < N {
            self.check_backed(1, N as u64)?;
            self.refill().await?;
        }
        match self
            .window
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>())
        {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.malformed(format!("needs {N} bytes at once"))),
        }
    }

    /// The next byte.
    pub(super) async fn u8(&mut self) -> Result<u8, WeightsError> {
        Ok(u8::from_le_bytes(self.take().await?))
    }

    /// The next little-endian `u32`.
    pub(super) async fn u32(&mut self) -> Result<u32, WeightsError> {
        Ok(u32::from_le_bytes(self.take().await?))
    }

    /// The next little-endian `u64`.
    pub(super) async fn u64(&mut self) -> Result<u64, WeightsError> {
        Ok(u64::from_le_bytes(self.take().await?))
    }

    /// Appends the next `count` bytes to `out`, which has room for them ([`HeaderReader::grow`]).
    pub(super) async fn append(
        &mut self,
        count: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), WeightsError> {
        self.check_backed(count as u64, 1)?;
        let mut left = count;
        while left > 0 {
            if self.at == self.window.len() {
                self.refill().await?;
            }
            let rest = self.window.get(self.at..).unwrap_or_default();
            let part = rest.get(..left).unwrap_or(rest);
            out.extend_from_slice(part);
            self.at += part.len();
            left -= part.len();
        }
        Ok(())
    }

    /// Appends the next string to `out`, like [`HeaderReader::append`], if its length and all its bytes are in the
    /// window already; says whether it did. It spares the many short strings of a vocabulary a wait each.
    pub(super) fn append_buffered_string(
        &mut self,
        out: &mut Vec<u8>,
    ) -> Result<bool, WeightsError> {
        let rest = self.window.get(self.at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<8>() else {
            return Ok(false);
        };
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some(string) = rest.get(..length) else {
            return Ok(false);
        };
        self.grow(out, length, 1)?;
        out.extend_from_slice(string);
        self.at += 8 + length;
        Ok(true)
    }

    /// Passes over the next `count` bytes, at most as many as are left.
    pub(super) fn skip(&mut self, count: u64) {
        let to = self.position().saturating_add(count).min(self.len);
        let at = to.saturating_sub(self.window_start);
        match usize::try_from(at) {
            Ok(at) if at <= self.window.len() => self.at = at,
            _ => {
                self.window.clear();
                self.at = 0;
                self.window_start = to;
            }
        }
    }

    /// Moves the window to the position. At least one byte is left.
    async fn refill(&mut self) -> Result<(), WeightsError> {
        let start = self.position();
        let size = (start / 4)
            .clamp(FIRST_WINDOW, LARGEST_WINDOW)
            .min(self.remaining());
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let additional = size.saturating_sub(self.window.len());
        let mut window = std::mem::take(&mut self.window);
        self.reserve(&mut window, additional)?;
        window.resize(size, 0);
        self.at = 0;
        self.window_start = start;
        self.source.read(start, &mut window).await?;
        self.window = window;
        Ok(())
    }
}
