use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// A queue for so many notices, and one more in the hands of the thread; its reader takes the next
/// when told to.
fn queue(room: usize) -> (Queue, SyncSender<()>, Receiver<String>) {
    let (take, taken) = sync_channel(room + 1);
    let (told, read) = channel();
    let queue = Queue::start(room, move |_, text| {
        // A test that is over takes no more.
        let _is_over = taken.recv();
        let _is_over = told.send(String::from_utf8(text.to_vec()).unwrap());
        Ok(())
    });
    (queue, take, read)
}

#[test]
fn a_reader_that_stopped_delays_nobody_and_what_it_missed_is_counted() {
    let (queue, take, read) = queue(2);
    let mut count = 0;
    // The thread may have taken the first or not.
    while queue.counts.left_out_lines.load(Ordering::SeqCst) == 0 {
        queue.add(Stream::Err, format!("{count}\nmore\n").as_bytes());
        count += 1;
    }
    assert!(count <= 4, "{count}");
    assert_eq!(queue.counts.left_out_lines.load(Ordering::SeqCst), 2);
    assert!(!queue.flush(Duration::from_millis(20)));
    drop(take);
    assert!(queue.flush(Duration::from_secs(60)));
    let told: Vec<String> = read.try_iter().collect();
    let expected: Vec<String> = (0..count - 1).map(|number| format!("{number}\nmore\n")).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_live_line_is_left_out_while_others_wait_and_is_always_taken_away() {
    let (queue, take, read) = queue(10);
    for text in ["\r1\x1b[K", "\r2\x1b[K", CLEAR, "said\n", "\r3\x1b[K"] {
        queue.add(Stream::Out, text.as_bytes());
    }
    drop(take);
    assert!(queue.flush(Duration::from_secs(60)));
    queue.add(Stream::Out, b"\r4\x1b[K");
    assert!(queue.flush(Duration::from_secs(60)));
    assert_eq!(read.try_iter().collect::<Vec<_>>(), ["\r1\x1b[K", CLEAR, "said\n", "\r4\x1b[K"]);
    assert_eq!(queue.counts.left_out_lines.load(Ordering::SeqCst), 0);
}

/// A warning began in the middle of the live line, and the end of the line stayed behind it.
#[test]
fn any_other_notice_takes_the_live_one_away_first() {
    let (queue, take, read) = queue(10);
    drop(take);
    for text in ["\r1\x1b[K", "warning\n", "error\n", "\r2\x1b[K", CLEAR, "page\n"] {
        queue.add(Stream::Err, text.as_bytes());
        assert!(queue.flush(Duration::from_secs(60)));
    }
    let told: Vec<String> = read.try_iter().collect();
    let expected = ["\r1\x1b[K", CLEAR, "warning\n", "error\n", "\r2\x1b[K", CLEAR, "page\n"];
    assert_eq!(told, expected);
}

#[test]
fn a_full_disk_loses_lines_that_are_counted_and_a_reader_that_left_loses_none() {
    let queue = Queue::start(10, |stream, _| match stream {
        Stream::Out => Err(Errno::PIPE.into()),
        Stream::Err => Err(Errno::NOSPC.into()),
    });
    queue.add(Stream::Out, b"a\n");
    queue.add(Stream::Err, b"b\nc\n");
    assert!(queue.flush(Duration::from_secs(60)));
    assert_eq!(queue.counts.left_out_lines.load(Ordering::SeqCst), 2);
    assert_eq!(queue.counts.refused.get(), None);
}

#[test]
fn standard_output_that_can_t_be_written_is_an_error_and_no_number_of_lines() {
    let queue = Queue::start(10, |_, _| Err(Errno::NOSPC.into()));
    queue.add(Stream::Out, b"a\n");
    queue.add(Stream::Out, b"b\n");
    assert!(queue.flush(Duration::from_secs(60)));
    assert_eq!(queue.counts.refused.get(), Some(&Errno::NOSPC));
    assert_eq!(queue.counts.left_out_lines.load(Ordering::SeqCst), 0);
}

#[test]
fn a_slow_reader_gets_every_byte() {
    use std::io::Read as _;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let writer = OwnedFd::from(writer);
    // As a file that we open ourselves, or a terminal that somebody else has set so.
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).unwrap();
    let bytes: Vec<u8> = (0..1_u32 << 17).flat_map(u32::to_le_bytes).collect();
    let slow = std::thread::spawn(move || {
        let (mut read, mut piece) = (Vec::new(), [0; 5_000]);
        loop {
            match reader.read(&mut piece).unwrap() {
                0 => return read,
                count => read.extend_from_slice(&piece[..count]),
            }
            std::thread::yield_now();
        }
    });
    write_all(&writer, &bytes).unwrap();
    drop(writer);
    assert!(slow.join().unwrap() == bytes);
}

#[test]
fn chunks_end_where_lines_do() {
    let (writer, reader) = std::os::unix::net::UnixDatagram::pair().unwrap();
    let line = format!("{}\n", "x".repeat(2_999));
    let text = format!("{line}{line}{}", "y".repeat(5_000));
    write_all(&writer, text.as_bytes()).unwrap();
    let mut piece = [0; 10_000];
    let sizes = [(); 4].map(|()| reader.recv(&mut piece).unwrap());
    assert_eq!(sizes, [3_000, 3_000, 4_096, 904]);
}
