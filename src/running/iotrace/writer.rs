//! Writing a trace as it happens.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use ringfall_core::clock::{MICROSECOND, Nanos, SECOND};

use super::{HEADER, TracePhase, TraceRow};

/// 2024-01-01T00:00:00Z: where times begin, so that the same run is the same trace on any day.
pub const FIXED_EPOCH_S: u64 = 1_704_067_200;
const BUFFER_BYTES: usize = 1 << 18;
/// Fast, and a fifth of the plain size.
const ZSTD_LEVEL: i32 = 3;

enum Sink {
    Plain(BufWriter<File>),
    Compressed(Box<zstd::stream::write::Encoder<'static, BufWriter<File>>>),
}

impl Sink {
    fn as_write(&mut self) -> &mut dyn Write {
        match self {
            Sink::Plain(file) => file,
            Sink::Compressed(encoder) => encoder,
        }
    }
}

/// A trace being written. Rows of the same time are written in the order of their fields, so that
/// the file doesn't depend on which shard came first.
pub struct TraceWriter {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// None: the file is complete.
    sink: Option<Sink>,
    /// The run's time 0 on the engine's clock.
    origin: Nanos,
    epoch_s: u64,
    now: Nanos,
    rows_now: Vec<TraceRow>,
    rows: u64,
    line: String,
    failure: Option<io::Error>,
}

impl TraceWriter {
    /// Begins the file; compressed if its name ends in `.zst`. Times count from `epoch_s`, seconds
    /// since 1970.
    pub fn create(path: &Path, epoch_s: u64) -> io::Result<TraceWriter> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, ringfall_host::files::begin(path)?);
        let is_compressed = path.extension().is_some_and(|ending| ending == "zst");
        let mut sink = match is_compressed {
            true => {
                let encoder = zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?;
                Sink::Compressed(Box::new(encoder))
            }
            false => Sink::Plain(file),
        };
        writeln!(sink.as_write(), "{HEADER}")?;
        let inner = Inner { sink: Some(sink), epoch_s, ..Inner::default() };
        Ok(TraceWriter { inner: RefCell::new(inner) })
    }

    /// The run's time 0 on the engine's clock.
    pub fn begin(&self, origin: Nanos) {
        self.inner.borrow_mut().origin = origin;
    }

    /// Takes an operation that ended at `now`, on the engine's clock.
    pub fn operation(&self, now: Nanos, row: TraceRow) {
        let mut inner = self.inner.borrow_mut();
        if now != inner.now {
            inner.write_rows();
            inner.now = now;
        }
        inner.rows_now.push(row);
    }

    /// Writing failed: there is no use in going on.
    pub fn has_failed(&self) -> bool {
        self.inner.borrow().failure.is_some()
    }

    /// Ends the file; how many rows it has.
    ///
    /// # Errors
    /// The first failure of writing, at any time.
    pub fn finish(&self) -> io::Result<u64> {
        let mut inner = self.inner.borrow_mut();
        inner.write_rows();
        if let Some(failure) = inner.failure.take() {
            return Err(failure);
        }
        match inner.sink.take() {
            Some(Sink::Plain(mut file)) => file.flush()?,
            Some(Sink::Compressed(encoder)) => encoder.finish()?.flush()?,
            None => {}
        }
        Ok(inner.rows)
    }
}

impl Inner {
    fn write_rows(&mut self) {
        use std::fmt::Write as _;
        let mut rows = std::mem::take(&mut self.rows_now);
        rows.sort_unstable();
        let since = self.now.saturating_sub(self.origin);
        let (seconds, micros) = (self.epoch_s + since / SECOND, since % SECOND / MICROSECOND);
        self.line.clear();
        for row in rows.drain(..) {
            let operation = if row.is_write { "Write" } else { "Read" };
            let phase = match row.phase {
                TracePhase::Prefill => "Prefill",
                TracePhase::Decode => "Decode",
                TracePhase::Evict => "Evict",
            };
            let (tier, bytes, key) = (row.tier.index(), row.bytes, row.key);
            let _infallible = writeln!(
                self.line,
                "{seconds}.{micros:06},{operation},{bytes},Tier-{tier},{key:032x},{phase}"
            );
            self.rows += 1;
        }
        self.rows_now = rows;
        if self.failure.is_none()
            && let Some(sink) = &mut self.sink
            && let Err(error) = sink.as_write().write_all(self.line.as_bytes())
        {
            self.failure = Some(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::key::Tier;
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn rows_are_in_order_whoever_came_first() {
        let row = |key, is_write, tier, phase| TraceRow { key, is_write, tier, phase, bytes: 4096 };
        let rows = [
            row(2, true, Tier::Storage, TracePhase::Evict),
            row(1, false, Tier::Storage, TracePhase::Decode),
            row(2, false, Tier::Cpu, TracePhase::Evict),
        ];
        let directory = Scratch::new("iotrace");
        let mut texts = Vec::new();
        for (name, order) in [("a.csv", [0, 1, 2]), ("b.csv.zst", [2, 0, 1])] {
            let path = directory.join("new").join(name);
            let writer = TraceWriter::create(&path, FIXED_EPOCH_S).unwrap();
            writer.begin(5 * SECOND);
            let moment = 6 * SECOND + Nanos::from_ns(1_999);
            order.iter().for_each(|place| writer.operation(moment, rows[*place]));
            writer.operation(8 * SECOND, rows[0]);
            assert_eq!(writer.finish().unwrap(), 4);
            let bytes = std::fs::read(&path).unwrap();
            let bytes = match name.ends_with("zst") {
                true => zstd::stream::decode_all(&bytes[..]).unwrap(),
                false => bytes,
            };
            texts.push(String::from_utf8(bytes).unwrap());
        }
        assert_eq!(texts[0], texts[1]);
        let lines: Vec<&str> = texts[0].lines().collect();
        assert_eq!(lines[0], HEADER);
        assert_eq!(
            lines[1],
            "1704067201.000001,Read,4096,Tier-2,00000000000000000000000000000001,Decode"
        );
        assert!(lines[2].contains("Read,4096,Tier-1") && lines[3].contains("Write,4096,Tier-2"));
        assert!(lines[4].starts_with("1704067203.000000,Write"), "{}", lines[4]);
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let writer = TraceWriter::create(Path::new("/dev/full"), 0).unwrap();
        let row = TraceRow {
            key: 1,
            is_write: true,
            tier: Tier::Storage,
            phase: TracePhase::Prefill,
            bytes: 1,
        };
        (0..100_000).map(Nanos::from_ns).for_each(|now| writer.operation(now, row));
        assert!(writer.has_failed());
        assert!(writer.finish().is_err());
    }
}
