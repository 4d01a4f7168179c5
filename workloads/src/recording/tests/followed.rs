//! Flags and sizes that calls tell, and files behind links.

use super::*;

/// They were dropped: durable writes went into the page cache.
#[test]
fn flags_of_a_call_are_those_of_the_operation() {
    let vector = "[{iov_base=\"\", iov_len=10}], 1, 0";
    let part = part(&format!(
        "1 100.0 open(\"/kv/a\", O_RDWR|O_CREAT|O_DSYNC) = 3</kv/a> <0.1>\n\
         1 101.0 pwritev2(3</kv/a>, {vector}, RWF_DSYNC) = 10 <0.1>\n\
         1 102.0 pwritev2(3</kv/a>, {vector}, RWF_SYNC|RWF_APPEND) = 10 <0.1>\n\
         1 103.0 preadv2(3</kv/a>, {vector}, RWF_HIPRI|RWF_NOWAIT|0x80) = 10 <0.1>\n\
         1 104.0 preadv2(3</kv/a>, {vector}, 0x80 /* RWF_??? */) = 10 <0.1>\n\
         1 105.0 preadv2(3</kv/a>, {vector}, 0) = 10 <0.1>\n\
         1 106.0 open(\"/kv/a\", O_RDWR|O_SYNC) = 4</kv/a> <0.1>\n\
         1 107.0 pwritev2(3</kv/a>, {vector}, RWF_NEW) = 10 <0.1>\n"
    ));
    let flags = part.operations.iter().filter_map(|one| match one.action {
        FileAction::Read { flags, .. } | FileAction::Write { flags, .. } => Some(flags),
        _ => None,
    });
    assert_eq!(flags.collect::<Vec<_>>(), [0x2, 0x14, 0x89, 0x80, 0]);
    assert_eq!((part.written_bytes, part.skipped.rows), (20, 1));
    let durable = part.operations.iter().filter_map(|one| match one.action {
        FileAction::Open { mode, .. } => Some((mode.sync, mode.data_sync)),
        _ => None,
    });
    // `O_DSYNC` was taken for `O_SYNC`.
    assert_eq!(durable.collect::<Vec<_>>(), [(false, true), (true, false)]);
}

/// It was left out: what was written past the page cache went into it, and the last block of `dd`
/// failed.
#[test]
fn flags_of_an_open_file_change_by_fcntl() {
    let found = part(
        "1 100.0 open(\"/kv/a\", O_WRONLY|O_CREAT|O_DIRECT) = 3</kv/a> <0.1>\n\
         1 101.0 fcntl(3</kv/a>, F_SETFL, O_WRONLY|O_LARGEFILE) = 0 <0.1>\n\
         1 102.0 fcntl(3</kv/a>, F_SETFL, O_WRONLY|O_APPEND|O_DIRECT) = 0 <0.1>\n\
         1 103.0 pwrite64(3</kv/a>, \"\", 10, 0) = 10 <0.1>\n\
         1 104.0 pwrite64(3</kv/a>, \"\", 10, 0) = 10 <0.1>\n\
         1 105.0 fcntl(3</kv/a>, F_SETFL, O_WRONLY|O_DIRECT) = -1 EINVAL (Invalid) <0.1>\n\
         1 106.0 fcntl(4</kv/b>, F_SETFL, O_RDWR|O_DIRECT) = 0 <0.1>\n\
         1 107.0 fcntl(5<pipe:[7]>, F_SETFL, O_RDWR|O_NONBLOCK) = 0 <0.1>\n",
    );
    let expected = [
        "create a",
        "+flags 0 false false",
        "+flags 0 true true",
        "write 0 0 10",
        "write 0 0 10",
        "+open b",
        "+flags 1 false true",
    ];
    assert_eq!((told(&found), found.written_bytes), (expected.map(str::to_owned).to_vec(), 20));
    let two = "1 100.0 open(\"/kv/a\", O_WRONLY|O_CREAT) = 3</kv/a> <0.1>\n\
               1 101.0 clone(flags=CLONE_FILES|CLONE_THREAD) = 2 <0.1>\n\
               2 102.0 fcntl(3</kv/a>, F_SETFL, O_WRONLY|O_DIRECT) = 0 <0.1>\n\
               1 103.0 pwrite64(3</kv/a>, \"\", 10, 0) = 10 <0.1>\n";
    let order = Order::of(&part(two)).unwrap();
    assert_eq!(super::order(&order, 0)[1].0, [(1, 0)], "the write follows the flags");
}

/// They were written into an empty file, which allocates what an overwriting does not.
#[test]
fn what_is_written_over_was_there_before() {
    let write = |offset, bytes: u64| {
        format!("1 110.0 pwrite64(3</kv/a>, \"\", {bytes}, {offset}) = {bytes} <0.1>\n")
    };
    let earlier = write(0, 500).replace("110.0", "100.0");
    let open = |flags: &str| format!("1 101.0 open(\"/kv/a\", O_RDWR{flags}) = 3</kv/a> <0.1>\n");
    let size = |bytes: u64| format!("{{st_mode=S_IFREG|0644, st_size={bytes}, ...}}");
    let fstat = |bytes| format!("1 102.0 fstat(3</kv/a>, {}) = 0 <0.1>\n", size(bytes));
    let stat = format!("1 100.0 stat(\"/kv/a\", {}) = 0 <0.1>\n", size(900));
    let statx = "1 100.0 statx(AT_FDCWD</kv>, \"a\", 0, STATX_ALL, {stx_mask=1, \
                 stx_mode=S_IFREG|0644, stx_size=900, ...}) = 0 <0.1>\n";
    let end = "1 103.0 lseek(3</kv/a>, 0, SEEK_END) = 900 <0.1>\n";
    let unlink = "1 120.0 unlink(\"/kv/a\") = 0 <0.1>\n";
    let close = "1 121.0 close(3</kv/a>) = 0 <0.1>\n";
    let grow = "1 101.5 ftruncate(3</kv/a>, 900) = 0 <0.1>\n";
    for (lines, bytes, written) in [
        // Nobody tells its size: what is written is all there, unless the file is made.
        (open("") + &write(100, 500), Some(600), 0),
        (open("|O_CREAT") + &write(100, 500), None, 500),
        (open("|O_TRUNC") + &write(100, 500), Some(0), 500),
        // No more than what is written over, and what is behind it is new.
        (stat.clone() + &open("|O_CREAT") + &write(100, 500), Some(600), 0),
        (statx.to_owned() + &open("") + &write(500, 500), Some(900), 100),
        (open("|O_CREAT") + &fstat(900) + &write(500, 500), Some(900), 100),
        (open("|O_CREAT") + end + &write(0, 500), Some(500), 0),
        (open("|O_CREAT|O_APPEND") + &fstat(900) + &write(0, 500), Some(0), 500),
        (open("") + &fstat(0) + &write(0, 500), Some(0), 500),
        (earlier.clone() + &fstat(500) + &write(500, 500), Some(1_000), 0),
        (earlier.clone() + &fstat(700) + &write(500, 500), Some(700), 300),
        // Freeing it takes as long as it was.
        (stat.clone() + unlink, Some(900), 0),
        (stat.clone() + &open("|O_TRUNC") + &write(0, 500), Some(900), 0),
        (open("|O_CREAT") + &fstat(900) + unlink + close, Some(900), 0),
        // The size is that of a call that is not done again.
        (open("|O_CREAT") + grow + &fstat(900) + &write(0, 500), None, 500),
        (open("|O_CREAT") + grow + end + &write(0, 500), None, 500),
    ] {
        let found = part(&lines);
        let expected: Vec<_> = bytes.map(|bytes| ("a", bytes)).into_iter().collect();
        assert_eq!((before(&found), found.written_bytes), (expected, written), "{lines}");
    }
}

/// A store that is reached by a link was two stores.
#[test]
fn a_path_through_a_link_is_that_of_the_file_opened() {
    let lines = "1 100.0 mkdir(\"/w/link/d\", 0777) = 0 <0.1>\n\
                 1 101.0 open(\"/w/link/d/a.tmp\", O_WRONLY|O_CREAT) = 3</w/real/d/a.tmp> <0.1>\n\
                 1 102.0 write(3</w/real/d/a.tmp>, \"\", 10) = 10 <0.1>\n\
                 1 103.0 rename(\"/w/link/d/a.tmp\", \"/w/link/d/a\") = 0 <0.1>\n\
                 1 104.0 open(\"/w/real/d/a\", O_RDONLY) = 4</w/real/d/a> <0.1>\n\
                 1 105.0 read(4</w/real/d/a>, \"\", 10) = 10 <0.1>\n\
                 1 106.0 stat(\"/w/link\", 0x7) = 0 <0.1>\n\
                 1 107.0 chmod(\"/w/link/d/a\", 0600) = 0 <0.1>\n\
                 1 108.0 unlink(\"/w/link\") = 0 <0.1>\n\
                 1 109.0 open(\"/w/last\", O_RDONLY) = 5</w/real/d/a> <0.1>\n";
    for below in [Some("/w/real"), Some("/w/link/."), None] {
        let found = Part::of(read(lines), below).unwrap();
        let expected = [
            "mkdir d",
            "create d/a.tmp",
            "write 0 0 10",
            "rename d/a.tmp d/a",
            "open d/a",
            "read 1 0 10",
            "look .",
            "open d/a",
        ];
        let left_out: Vec<_> =
            found.left_out.iter().map(|(call, left)| (*call, left.count)).collect();
        match below {
            Some(_) => assert_eq!(
                (told(&found), found.below.as_str()),
                (expected.map(str::to_owned).to_vec(), "/w/real")
            ),
            None => assert_eq!(found.below, "/w/real/d"),
        }
        assert_eq!((before(&found).len(), left_out.first()), (0, Some(&("chmod", 1))));
    }
    let found = Part::of(read(lines), Some("/w/real")).unwrap();
    assert_eq!(found.left_out["linked"].count, 1, "the link's removal");
    // It leads elsewhere later; one whose file was renamed before strace looked is none.
    let found = part(
        "1 100.0 open(\"/kv/now/a\", O_RDONLY) = 3</kv/1/a> <0.1>\n\
         1 101.0 open(\"/kv/now/a\", O_RDONLY) = 4</kv/2/a> <0.1>\n\
         1 102.0 stat(\"/kv/now/a\", 0x7) = 0 <0.1>\n\
         1 103.0 rename(\"/kv/t.tmp\", \"/kv/t\") = 0 <0.5>\n\
         2 103.0 open(\"/kv/t.tmp/x\", O_RDONLY) = 5</kv/t/x> <0.1>\n\
         2 104.0 open(\"/kv/d/y\", O_RDONLY) = 6</kv/e/y> <0.1>\n\
         2 105.0 open(\"/kv/d/z\", O_RDONLY) = 7</kv/d/z> <0.1>\n\
         2 106.0 stat(\"/kv/d/y\", 0x7) = 0 <0.1>\n\
         2 107.0 open(\"/kv/d/y\", O_RDONLY) = 8</jail/kv/d/y> <0.1>\n",
    );
    let expected = [
        "open 1/a",
        "open 2/a",
        "rename t.tmp t",
        "open t.tmp/x",
        "open e/y",
        "open d/z",
        "look d/y",
        "open d/y",
    ];
    assert_eq!(
        (told(&found), found.left_out["linked"].count),
        (expected.map(str::to_owned).to_vec(), 1)
    );
}

/// Nobody told of them.
#[test]
fn calls_on_no_file_in_particular_are_counted() {
    let found = part(
        "1 100.0 unlink(\"/kv/x\") = 0 <0.1>\n\
         1 101.0 msync(0x7f0000, 4096, MS_SYNC) = 0 <0.1>\n\
         1 102.0 sync() = 0 <0.1>\n\
         1 103.0 chroot(\"/jail\") = 0 <0.1>\n",
    );
    let counts: Vec<_> = found.left_out.iter().map(|(call, left)| (*call, left.count)).collect();
    assert_eq!(counts, [("chroot", 1), ("msync", 1), ("sync", 1)]);
}

/// Gaps were taken for times.
#[test]
fn times_since_the_line_before_are_refused() {
    let lines = "1 0.000000 unlink(\"/kv/x\") = 0 <0.1>\n1 1.000000 unlink(\"/kv/y\") = 0 <0.1>\n";
    let error = Recording::read(lines.as_bytes()).err().unwrap().to_string();
    assert!(error.contains("-ttt -T -y") && error.contains("without -r"), "{error}");
}
