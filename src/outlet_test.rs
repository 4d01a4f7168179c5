use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// A stream whose reader takes bytes only when it is told to: for each unit that comes, one chunk.
struct Reader {
    queue: Arc<Queue>,
    take: Sender<()>,
    taken: Receiver<(Stream, String)>,
}

fn reader() -> Reader {
    let queue = Arc::new(Queue::default());
    let ((take, takes), (took, taken)) = (channel::<()>(), channel());
    let served = Arc::clone(&queue);
    // Ends with the test's process.
    std::thread::spawn(move || {
        served.serve(&|_, _| true, &mut |stream, bytes| {
            if takes.recv().is_err() {
                return Err(Errno::PIPE.into());
            }
            let _test_is_over = took.send((stream, String::from_utf8(bytes.to_vec()).unwrap()));
            Ok(bytes.len())
        });
    });
    Reader { queue, take, taken }
}

impl Reader {
    fn notice(&self, stream: Stream, text: &str) {
        self.queue.add_notice(stream, text.as_bytes().to_vec()).unwrap();
    }

    fn read(&self) -> (Stream, String) {
        self.take.send(()).unwrap();
        self.taken.recv().unwrap()
    }

    /// Waits until the writer has the first piece in its hands.
    fn await_begun(&self) {
        while !self.queue.lock().pieces.front().is_some_and(|piece| piece.is_begun) {
            std::thread::yield_now();
        }
    }
}

/// None: nobody ever gives up.
fn for_ever(_: Stream) -> Option<Duration> {
    None
}

fn not_at_all(_: Stream) -> Option<Duration> {
    Some(Duration::ZERO)
}

#[test]
fn lines_of_both_streams_come_in_the_order_in_which_they_were_said() {
    let reader = reader();
    reader.notice(Stream::Err, "a\n");
    reader.await_begun();
    reader.notice(Stream::Out, "b\n");
    reader.notice(Stream::Out, "c\n");
    reader.notice(Stream::Err, "d\n");
    assert_eq!(reader.read(), (Stream::Err, "a\n".to_owned()));
    assert_eq!(reader.read(), (Stream::Out, "b\nc\n".to_owned()));
    assert_eq!(reader.read(), (Stream::Err, "d\n".to_owned()));
    reader.queue.written(Stream::Out, for_ever).unwrap();
}

#[test]
fn a_live_line_takes_the_place_of_one_that_waits_and_never_of_one_that_is_being_written() {
    let reader = reader();
    reader.notice(Stream::Out, "\r1");
    reader.await_begun();
    for line in ["\r2", "\r3", "\r4"] {
        reader.notice(Stream::Out, line);
    }
    reader.notice(Stream::Out, "said\n");
    reader.notice(Stream::Out, "\r5");
    let read = [(); 4].map(|()| reader.read().1);
    assert_eq!(read, ["\r1", "\r4", "said\n", "\r5"]);
}

#[test]
fn nobody_waits_for_a_stopped_terminal_and_what_it_missed_is_counted() {
    let reader = reader();
    let line = format!("{}\n", "x".repeat(1023));
    let lines = NOTICE_BYTES_MAX / line.len();
    for _ in 0..lines + 7 {
        reader.notice(Stream::Err, &line);
    }
    let error = reader.queue.written(Stream::Err, not_at_all).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    // Nor does anybody else wait who comes later.
    let error = reader.queue.written(Stream::Err, for_ever).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let mut text = String::new();
    while text.len() < lines * line.len() {
        text.push_str(&reader.read().1);
    }
    assert_eq!(text.lines().count(), lines);
    let told = reader.read().1;
    assert_eq!(told, "warning: lines left out here, as nobody read them or the disk was full: 7\n");
    reader.queue.written(Stream::Err, for_ever).unwrap();
}

#[test]
fn a_slow_reader_gets_every_byte_of_a_page_that_is_larger_than_the_queue() {
    let reader = reader();
    let queue = Arc::clone(&reader.queue);
    let page: String = (0..400_000).map(|number| format!("{number:09}\n")).collect();
    let expected = page.clone();
    let writer = std::thread::spawn(move || {
        for part in page.as_bytes().chunks(60_000) {
            queue.add_page(Stream::Out, part, for_ever)?;
        }
        queue.written(Stream::Out, for_ever)
    });
    let mut text = String::new();
    while text.len() < expected.len() {
        text.push_str(&reader.read().1);
    }
    writer.join().unwrap().unwrap();
    assert!(text == expected);
}

#[test]
fn a_reader_that_left_is_told_to_whoever_writes_and_the_other_stream_goes_on() {
    let queue = Arc::new(Queue::default());
    let (took, taken) = channel();
    let served = Arc::clone(&queue);
    std::thread::spawn(move || {
        served.serve(&|_, _| true, &mut |stream, bytes| match stream {
            Stream::Out => Err(Errno::PIPE.into()),
            Stream::Err => {
                let _test_is_over = took.send(String::from_utf8(bytes.to_vec()).unwrap());
                Ok(bytes.len())
            }
        });
    });
    queue.add_page(Stream::Out, b"page", for_ever).unwrap();
    let error = queue.written(Stream::Out, for_ever).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    let error = queue.add_page(Stream::Out, b"more", for_ever).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    queue.add_notice(Stream::Err, b"said\n".to_vec()).unwrap();
    assert_eq!(taken.recv().unwrap(), "said\n");
    queue.written(Stream::Err, for_ever).unwrap();
}

#[test]
fn a_notice_is_one_piece_however_it_is_put_together() {
    let mut outlet = notices(Stream::Err);
    outlet.partial.extend_from_slice(b"begun");
    assert_eq!(outlet.write(b" and").unwrap(), 4);
    assert_eq!(outlet.partial, b"begun and");
    // Not to be told to whoever runs the tests.
    outlet.partial.clear();
}

#[test]
fn a_stream_that_nobody_reads_does_not_hold_back_the_other() {
    let queue = Arc::new(Queue::default());
    let (sender, written) = std::sync::mpsc::channel();
    let served = Arc::clone(&queue);
    std::thread::spawn(move || {
        let is_ready = |stream, _| stream == Stream::Out;
        served.serve(&is_ready, &mut |stream, bytes| {
            sender.send((stream, bytes.to_vec())).unwrap();
            Ok(bytes.len())
        });
    });
    queue.add_notice(Stream::Err, b"waits\n".to_vec()).unwrap();
    queue.add_page(Stream::Out, b"page", for_ever).unwrap();
    queue.written(Stream::Out, for_ever).unwrap();
    assert_eq!(written.recv().unwrap(), (Stream::Out, b"page".to_vec()));
    queue.written(Stream::Err, not_at_all).unwrap_err();
    // Who gave up on one stream has not given up on the other.
    queue.add_page(Stream::Out, b"more", for_ever).unwrap();
    queue.written(Stream::Out, for_ever).unwrap();
}

#[test]
fn a_disk_that_was_full_for_a_while_loses_lines_and_says_how_many() {
    let queue = Arc::new(Queue::default());
    let mut file = String::new();
    let mut lost = 0;
    let mut write_all = |state: &mut State, is_full: bool| {
        while let Some((stream, chunk)) = state.next_chunk(&|_, _| true) {
            if is_full {
                lost += 1;
                state.conclude(stream, Err(Errno::NOSPC.into()));
            } else {
                file.push_str(std::str::from_utf8(&chunk).unwrap());
                state.conclude(stream, Ok(chunk.len()));
            }
        }
    };
    for (text, is_full) in [("a\n", false), ("b\nc\n", true), ("d\n", true), ("e\n", false)] {
        queue.add_notice(Stream::Err, text.as_bytes().to_vec()).unwrap();
        write_all(&mut queue.lock(), is_full);
    }
    let told = "warning: lines left out here, as nobody read them or the disk was full";
    // The warning about the first two was lost with `d`.
    assert_eq!(file, format!("a\n{told}: 3\ne\n"));
    assert_eq!(lost, 2);
    assert_eq!(queue.lock().waiting_bytes, 0);
    // A page that is not whole has failed, also when there is room again.
    queue.add_page(Stream::Err, b"page", for_ever).unwrap();
    let mut state = queue.lock();
    let (stream, _chunk) = state.next_chunk(&|_, _| true).unwrap();
    state.conclude(stream, Err(Errno::NOSPC.into()));
    assert_eq!(state.check(Stream::Err).unwrap_err().raw_os_error(), Some(28));
}

#[test]
fn a_place_that_takes_nothing_is_given_up_and_a_slow_one_gets_all() {
    use std::io::Read as _;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let writer = File::from(std::os::fd::OwnedFd::from(writer));
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let bytes: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    let given_up = write_all_to(&writer, &bytes, &|| Some(Duration::ZERO)).unwrap_err();
    assert_eq!(given_up.kind(), ErrorKind::TimedOut);
    // What went into the pipe until it was full.
    let mut held = vec![0; bytes.len()];
    let length = reader.read(&mut held).unwrap();
    assert!(length > 0 && held[..length] == bytes[..length]);
    let slow = std::thread::spawn(move || {
        let mut read = Vec::new();
        loop {
            match reader.read(&mut held[..5_000]) {
                Ok(0) => return read,
                Ok(count) => read.extend_from_slice(&held[..count]),
                Err(error) => panic!("{error}"),
            }
            std::thread::yield_now();
        }
    });
    write_all_to(&writer, &bytes, &|| None).unwrap();
    drop(writer);
    assert!(slow.join().unwrap() == bytes);
}
