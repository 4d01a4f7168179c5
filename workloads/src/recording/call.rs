//! Lines of strace as system calls; the two halves of a call that was interrupted by another
//! thread's are put together.

use std::collections::BTreeMap;

/// Memory of the first half of a call, besides its text, bytes: about 100.
const HALF_BYTES: usize = 128;
/// End of the line of a call that goes on later.
const UNFINISHED: &str = "<unfinished ...>";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer<'a> {
    /// Number that it returned, and what strace tells of it: of a descriptor, its path.
    Value { value: u64, note: Option<&'a str> },
    /// Name of the errno.
    Failed(&'a str),
    /// Anything else, such as a call that is begun again.
    Other,
}

/// System call of a thread, as it ended.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) thread: u32,
    /// When it began, ns since 1970.
    pub(super) begin_ns: u64,
    pub(super) took_ns: u64,
    /// Number of lines of other calls between its halves.
    pub(super) lines_between: u64,
    pub(super) name: &'a str,
    pub(super) arguments: Vec<&'a str>,
    pub(super) answer: Answer<'a>,
}

/// Meaning of a line.
pub(super) enum Told<'a> {
    Call(Call<'a>),
    /// The thread begins a call of that name, with these arguments so far.
    Begins {
        thread: u32,
        name: &'a str,
        arguments: &'a str,
    },
    /// The thread is gone.
    Exit {
        thread: u32,
        time_ns: u64,
    },
    Nothing,
}

/// First half of a call that is under way.
struct Half {
    begin_ns: u64,
    text: String,
    line: u64,
}

/// Halves of calls by thread.
#[derive(Default)]
pub(super) struct Halves {
    halves: BTreeMap<u32, Half>,
    bytes: usize,
    lines: u64,
    /// Number of calls whose thread ended before they did.
    unended: u64,
    /// The call that was put together last.
    whole: String,
    /// Whether the first time was none since 1970 (`strace -r`).
    is_relative: bool,
}

impl Halves {
    /// Number of calls that have begun and not ended.
    pub(super) fn unended(&self) -> u64 {
        self.unended + self.halves.len() as u64
    }

    /// Whether times are those since the line before.
    pub(super) fn is_relative(&self) -> bool {
        self.is_relative
    }

    /// Memory of the calls that are under way, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the half of a thread's call, if there is one.
    fn take(&mut self, thread: u32) -> Option<Half> {
        let half = self.halves.remove(&thread)?;
        self.bytes -= half.text.len() + HALF_BYTES;
        Some(half)
    }

    pub(super) fn read<'a>(&'a mut self, line: &'a str) -> Result<Told<'a>, String> {
        let Some((thread, rest)) = thread(line) else { return Ok(Told::Nothing) };
        let (time_ns, rest) = time(rest)?;
        self.lines += 1;
        self.is_relative |= self.lines == 1 && time_ns < 1_000_000_000;
        if let Some(exit) = rest.strip_prefix("+++ ") {
            let is_exit = ["exited", "killed", "superseded"].iter().any(|is| exit.starts_with(is));
            if !is_exit {
                return Ok(Told::Nothing);
            }
            // A process goes on as its first thread, whichever executed another program.
            let executes = exit.strip_prefix("superseded by execve in pid ");
            if let Some(other) = executes.and_then(|pid| pid.strip_suffix(" +++")?.parse().ok()) {
                self.unended += u64::from(self.take(thread).is_some());
                if let Some(half) = self.halves.remove(&other) {
                    self.halves.insert(thread, half);
                }
                return Ok(Told::Exit { thread: other, time_ns });
            }
            self.unended += u64::from(self.take(thread).is_some());
            return Ok(Told::Exit { thread, time_ns });
        }
        if rest.starts_with("--- ") {
            return Ok(Told::Nothing);
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (name, rest) = resumed.split_once(" resumed>").ok_or("it resumes no call")?;
            let half = self.take(thread).ok_or("the call that it ends has no begin")?;
            self.whole = half.text;
            self.whole.push_str(rest);
            let lines_between = self.lines - half.line - 1;
            let call = call(thread, half.begin_ns, &self.whole)?;
            return match call {
                Some(call) if call.name != name => {
                    Err(format!("it ends {name}, and {} had begun", call.name))
                }
                Some(call) => Ok(Told::Call(Call { lines_between, ..call })),
                None => Ok(Told::Nothing),
            };
        }
        if let Some(half) = rest.strip_suffix(UNFINISHED) {
            let text = half.trim_end();
            // A call that never ended, where a thread's number is used again.
            self.unended += u64::from(self.take(thread).is_some());
            self.bytes += text.len() + HALF_BYTES;
            let half = Half { begin_ns: time_ns, text: text.to_owned(), line: self.lines };
            self.halves.insert(thread, half);
            let (name, arguments) = text.split_once('(').unwrap_or((text, ""));
            return Ok(Told::Begins { thread, name, arguments });
        }
        Ok(call(thread, time_ns, rest)?.map_or(Told::Nothing, Told::Call))
    }
}

/// Number of the thread, 0 where only one is traced, and the rest of the line; none for messages of
/// strace.
fn thread(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with("strace: ") {
        return None;
    }
    let (number, rest) = match line.strip_prefix("[pid ") {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
        None => line.split_once(' ').unwrap_or((line, "")),
    };
    match number.trim().parse() {
        Ok(thread) => Some((thread, rest.trim_start())),
        Err(_) => Some((0, line)),
    }
}

/// Time of a line, ns since 1970, and its rest.
fn time(text: &str) -> Result<(u64, &str), String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let time = seconds(word).ok_or("it has no time in seconds since 1970: record with -ttt")?;
    Ok((time, rest.trim_start()))
}

/// Seconds with a fraction as ns.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !(digits(whole) && digits(fraction) && (1..=9).contains(&fraction.len())) {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|seconds| *seconds < 1 << 33)?;
    let scale = 10u64.pow(9 - fraction.len() as u32);
    Some(whole * 1_000_000_000 + fraction.parse::<u64>().ok()? * scale)
}

/// Reads a call that is whole; none where it has no result, as that of a thread that ended.
fn call(thread: u32, begin_ns: u64, text: &str) -> Result<Option<Call<'_>>, String> {
    let (name, rest) = text.split_once('(').ok_or("it is no system call")?;
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_part)
    };
    if !is_name(name) {
        return Err("it is no system call".to_owned());
    }
    let (arguments, rest) = split(rest).ok_or("its arguments have no end")?;
    let result = rest.trim_start().strip_prefix("= ").ok_or("it has no result")?;
    let Some((result, took)) = result.rsplit_once(" <") else {
        return match result.starts_with('?') {
            true => Ok(None),
            false => Err("it has no duration: record with -T".to_owned()),
        };
    };
    // Of a thread that was killed.
    if took == "unavailable>" {
        return Ok(None);
    }
    let took_ns = took.strip_suffix('>').and_then(seconds).ok_or("it has no duration")?;
    let answer = answer(result);
    Ok(Some(Call { thread, begin_ns, took_ns, lines_between: 0, name, arguments, answer }))
}

/// Thread whose call a line ends, if the call is of that kind, and the number that it returned.
pub(super) fn ended(line: &str, is_of_kind: fn(&str) -> bool) -> Option<(u32, Option<u32>)> {
    let (thread, rest) = thread(line)?;
    let (_, rest) = time(rest).ok()?;
    let (name, rest) = rest.strip_prefix("<... ")?.split_once(" resumed>")?;
    let (_, result) = rest.rsplit_once(" = ").filter(|_| is_of_kind(name))?;
    Some((thread, result.split(' ').next()?.parse().ok()))
}

fn answer(result: &str) -> Answer<'_> {
    if let Some(failed) = result.strip_prefix("-1 ") {
        return Answer::Failed(failed.split(' ').next().unwrap_or_default());
    }
    let end = result.find(|c: char| !c.is_ascii_digit()).unwrap_or(result.len());
    match result[..end].parse() {
        Ok(value) => Answer::Value { value, note: noted(&result[end..]) },
        Err(_) => Answer::Other,
    }
}

/// Splits arguments at their commas; what is behind the parenthesis that ends them is the rest.
fn split(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let (mut arguments, mut begin, mut depth, mut at) = (Vec::new(), 0, 0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at)?,
            // What is told of a descriptor; its path may hold anything.
            b'<' if at > 0 && matches!(bytes[at - 1], b'0'..=b'9' | b'D') => {
                if bytes.get(at + 1) != Some(&b'<') {
                    at = end_of_note(bytes, at)?;
                } else {
                    at += 1;
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[begin..at].trim();
                if !(arguments.is_empty() && last.is_empty()) {
                    arguments.push(last);
                }
                return Some((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                arguments.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Place of the quote that ends a string.
fn end_of_string(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Place of the bracket that ends a note, in which there may be another.
fn end_of_note(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate().skip(begin) {
        match byte {
            b'<' => depth += 1,
            b'>' if depth == 1 => return Some(at),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Text between the brackets of a note, without what it says of a device.
fn noted(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('<')?;
    let inside = inside.split(['<', '>']).next().unwrap_or(inside);
    Some(inside.strip_suffix(" (deleted)").unwrap_or(inside))
}

/// Descriptor of an argument, and what is told of it; none where it is no descriptor.
pub(super) fn descriptor(argument: &str) -> Option<(u32, Option<&str>)> {
    let end = argument.find(|c: char| !c.is_ascii_digit()).unwrap_or(argument.len());
    Some((argument[..end].parse().ok()?, noted(&argument[end..])))
}

/// Directory that `AT_FDCWD` is, where it is told.
pub(super) fn working_directory(argument: &str) -> Option<&str> {
    noted(argument.strip_prefix("AT_FDCWD")?)
}

/// Text of a string's argument; none where it is no whole string.
pub(super) fn string(argument: &str) -> Option<String> {
    unescaped(argument.strip_prefix('"')?.strip_suffix('"')?)
}

/// Text without strace's escapes; what is no UTF-8 then stays as it was written.
pub(super) fn unescaped(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut bytes = text.bytes().peekable();
    let mut found = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            found.push(byte);
            continue;
        }
        found.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'x' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            first @ b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(next) = bytes.next_if(|byte| matches!(byte, b'0'..=b'7')) else {
                        break;
                    };
                    value = value * 8 + u32::from(next - b'0');
                }
                u8::try_from(value).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8(found).unwrap_or_else(|_| text.to_owned()))
}
