use super::*;

mod blocks;
mod followed;

/// Lines of strace on files below `/kv`, each with its thread; a call begins at the given
/// microsecond.
fn read(lines: &str) -> Recording {
    Recording::read(lines.as_bytes()).unwrap()
}

fn part(lines: &str) -> Part {
    Part::of(read(lines), Some("/kv")).unwrap()
}

/// Operations as words: those of the recording, `+` before what it does not have.
fn told(part: &Part) -> Vec<String> {
    let name = |name: u32| &*part.names[name as usize];
    let told = |one: &RecordedOperation| {
        let what = match one.action {
            FileAction::Open { name: of, mode, .. } if mode.create => {
                format!("create {}", name(of))
            }
            FileAction::Open { name: of, .. } => format!("open {}", name(of)),
            FileAction::Read { handle, offset, bytes, .. } => {
                format!("read {handle} {offset} {bytes}")
            }
            FileAction::Write { handle, offset, bytes, .. } => {
                format!("write {handle} {offset} {bytes}")
            }
            FileAction::Sync { handle, .. } => format!("sync {handle}"),
            FileAction::Look { name: of, .. } => format!("look {}", name(of)),
            FileAction::LookAtOpen { handle, .. } => format!("look {handle}"),
            FileAction::SetFlags { handle, append, direct } => {
                format!("flags {handle} {append} {direct}")
            }
            FileAction::MakeDirectory { name: of } => format!("mkdir {}", name(of)),
            FileAction::Rename { from, to, .. } => format!("rename {} {}", name(from), name(to)),
            FileAction::Link { from, to } => format!("link {} {}", name(from), name(to)),
            FileAction::Remove { name: of, .. } => format!("remove {}", name(of)),
            FileAction::Close { handle } => format!("close {handle}"),
        };
        let failed = if one.failure.is_some() { "!" } else { "" };
        format!("{}{what}{failed}", if one.is_call { "" } else { "+" })
    };
    part.operations.iter().map(told).collect()
}

#[test]
fn calls_of_a_thread_are_read_with_their_offsets() {
    let part = part(
        "9 100.000001 openat(AT_FDCWD</>, \"kv/a,(b\\74\\303\\244\", O_RDWR|O_CREAT|O_DIRECT, \
         0644) = 3</kv/a,(b\\74\\303\\244> <0.000005>\n\
         9 100.000010 write(3</kv/a,(b\\74\\303\\244>, \"x) = 9 <\\\", \"..., 4096) = 4096 \
         <0.000010>\n\
         9 100.000030 pwritev(3</kv/a>, [{iov_base=\"\", iov_len=1}, {iov_base=\"\", iov_len=2}], \
         2, 8192) = 3 <0.000010>\n\
         9 100.000050 lseek(3</kv/a>, 100, SEEK_SET) = 100 <0.000001>\n\
         9 100.000060 read(3</kv/a>, \"\"..., 100000) = 5000 <0.000001>\n\
         9 100.000070 read(3</kv/a>, \"\", 100000) = 0 <0.000001>\n\
         9 100.000080 preadv2(3</kv/a>, [{iov_base=\"\", iov_len=9}], 1, -1, 0) = 9 <0.000001>\n\
         9 100.000090 fdatasync(3</kv/a>) = 0 <0.001000>\n\
         9 100.002090 newfstatat(3</kv/a>, \"\", {st_mode=S_IFREG|0644, ...}, AT_EMPTY_PATH) = 0 \
         <0.000001>\n\
         9 100.002100 close(3</kv/a>) = 0 <0.000001>\n\
         9 100.002110 renameat2(AT_FDCWD</kv>, \"x\", AT_FDCWD</kv>, \"./y/../z\", 0) = -1 ENOENT \
         (No such file or directory) <0.000001>\n",
    );
    let expected = [
        "create a,(b<ä",
        "write 0 0 4096",
        "write 0 8192 3",
        "read 0 100 8192",
        "read 0 5100 4096",
        "read 0 5100 9",
        "sync 0",
        "look 0",
        "close 0",
        "rename x z!",
    ];
    assert_eq!(told(&part), expected);
    assert_eq!(part.operations[0].begin_ns, 100_000_001_000);
    assert_eq!(part.operations[6].took_ns, 1_000_000);
    let FileAction::Open { mode, .. } = part.operations[0].action else { panic!("it opens") };
    assert!(mode.read && mode.write && mode.direct && !mode.truncate);
    assert_eq!(part.skipped, Default::default());
}

/// `fchdir` changes the directory that paths begin from, and what can't be resolved is counted.
#[test]
fn relative_paths_begin_at_the_directory_that_was_changed_to() {
    let found = read(
        "1 100.000001 stat(\"x\", 0x7) = 0 <0.000001>\n\
         1 100.000002 access(\"x\", F_OK) = -1 ENOENT (No such file or directory) <0.000001>\n\
         1 100.000003 faccessat(5, \"x\", F_OK) = 0 <0.000001>\n\
         1 100.000004 newfstatat(0</dev/null>, \"\", 0x7, AT_EMPTY_PATH) = 0 <0.000001>\n\
         1 100.000005 fchdir(4</kv/a>) = 0 <0.000001>\n\
         1 100.000006 stat(\"x\", 0x7) = 0 <0.000001>\n\
         1 100.000007 open(\"../b\", O_RDONLY|O_DIRECTORY) = 5 <0.000001>\n\
         1 100.000008 fchdir(5) = 0 <0.000001>\n\
         1 100.000009 unlink(\"y\") = 0 <0.000001>\n\
         1 100.000010 fchdir(6) = 0 <0.000001>\n\
         1 100.000011 unlink(\"z\") = 0 <0.000001>\n\
         1 100.000012 stat(\"z\", 0x7) = 0 <0.000001>\n",
    );
    assert_eq!(found.untold(), 5);
    let part = Part::of(found, Some("/kv")).unwrap();
    assert_eq!(told(&part), ["look a/x", "open b", "remove b/y"]);
}

/// It was left out, though a store that makes its names durable waits for it.
#[test]
fn the_directory_of_all_is_opened_and_synced_but_not_made_or_removed() {
    let part = part(
        "1 100.000001 stat(\"/kv\", 0x7) = -1 ENOENT (No such file or directory) <0.000001>\n\
         1 100.000002 mkdir(\"/kv\", 0777) = 0 <0.000001>\n\
         1 100.000003 open(\"/kv/a\", O_WRONLY|O_CREAT) = 3</kv/a> <0.000001>\n\
         1 100.000004 open(\"/kv\", O_RDONLY) = 4</kv> <0.000001>\n\
         1 100.000005 fsync(4</kv>) = 0 <0.000001>\n\
         1 100.000006 close(4</kv>) = 0 <0.000001>\n\
         1 100.000007 fsync(5</kv>) = 0 <0.000001>\n\
         1 100.000008 stat(\"/kv\", 0x7) = 0 <0.000001>\n\
         1 100.000009 rename(\"/kv\", \"/old\") = 0 <0.000001>\n",
    );
    let expected = ["create a", "open .", "sync 1", "close 1", "+open .", "sync 2", "look ."];
    assert_eq!(told(&part), expected);
    assert_eq!(part.elsewhere, 3);
    assert_eq!((part.files_before.len(), part.directories_before.len()), (0, 0));
    // A directory can't be opened to be written.
    let FileAction::Open { mode, .. } = part.operations[4].action else { panic!("it opens") };
    assert!(mode.read && !mode.write);
}

/// It asked for no more than what was left of the file, which O_DIRECT does not take.
#[test]
fn a_vector_is_read_up_to_the_end_of_its_block() {
    let part = part(
        "1 100.0 open(\"/kv/a\", O_RDONLY|O_DIRECT) = 3</kv/a> <0.1>\n\
         1 101.0 preadv(3</kv/a>, [{iov_base=\"\"..., iov_len=4096}, {iov_base=\"\", \
         iov_len=8192}], 2, 0) = 5000 <0.1>\n",
    );
    assert_eq!(told(&part)[1], "read 0 0 8192");
}

/// Its first half tells when it began, whatever stands between.
#[test]
fn calls_in_two_halves_are_put_together() {
    let part = part(
        "[pid 7] 100.000001 open(\"/kv/a\", O_RDONLY <unfinished ...>\n\
         [pid 8] 100.000002 stat(\"/kv/b\",  <unfinished ...>\n\
         [pid 7] 100.000030 <... open resumed>) = 3</kv/a> <0.000029>\n\
         [pid 8] 100.000031 <... stat resumed>0x7ff) = -1 ENOENT (No such file or directory) \
         <0.000029>\n\
         [pid 7] 100.000040 read(3</kv/a>, \"\"..., 10) = 10 <0.000001>\n\
         [pid 7] 100.000050 read(3</kv/a>,  <unfinished ...>\n\
         [pid 8] 100.000060 +++ exited with 0 +++\n",
    );
    assert_eq!(told(&part), ["open a", "look b!", "read 0 0 10"]);
    assert_eq!(part.operations[0].took_ns, 29_000);
    assert_eq!(part.untold, 1);
    assert_eq!(part.files_before, [FileBefore { path: "a".into(), bytes: 10 }]);
}

#[test]
fn descriptors_are_those_of_a_process_and_its_threads() {
    let part = part(
        "1 100.000001 open(\"/kv/a\", O_RDONLY) = 3</kv/a> <0.000001>\n\
         1 100.000010 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[2]}, 88) \
         = 2 <0.000001>\n\
         2 100.000020 read(3, \"\"..., 10) = 10 <0.000001>\n\
         1 100.000030 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n\
         3 100.000031 close(3</kv/a>) = 0 <0.000001>\n\
         3 100.000033 open(\"/kv/b\", O_WRONLY|O_CREAT) = 3</kv/b> <0.000001>\n\
         1 100.000035 <... clone resumed>) = 3 <0.000005>\n\
         3 100.000040 dup2(3</kv/b>, 1</dev/pts/0<char 136:0>>) = 1</kv/b> <0.000001>\n\
         3 100.000041 close(3</kv/b>) = 0 <0.000001>\n\
         3 100.000042 write(1</kv/b>, \"\"..., 7) = 7 <0.000001>\n\
         3 100.000050 +++ exited with 0 +++\n\
         2 100.000060 read(3</kv/a>, \"\"..., 10) = 10 <0.000001>\n\
         2 100.000070 close(3</kv/a>) = 0 <0.000001>\n\
         8 100.000080 pread64(5</kv/c>, \"\"..., 4, 4096) = 4 <0.000001>\n",
    );
    let expected = [
        "open a",
        "read 0 0 10",
        "create b",
        "write 1 0 7",
        "+close 1",
        "read 0 10 10",
        "close 0",
        "+open c",
        "read 2 4096 4",
    ];
    assert_eq!(told(&part), expected);
    let threads: Vec<u32> = part.operations.iter().map(|one| one.thread).collect();
    assert_eq!(threads, [0, 1, 2, 2, 2, 1, 1, 3, 3]);
}

/// Files that must be there before, with their bytes.
fn before(part: &Part) -> Vec<(&str, u64)> {
    part.files_before.iter().map(|file| (&*file.path, file.bytes)).collect()
}

fn directories_before(part: &Part) -> Vec<&str> {
    part.directories_before.iter().map(|path| &**path).collect()
}

/// Files that the recording makes, or did not find, are not there before.
#[test]
fn what_was_there_before_is_what_was_found_and_not_made() {
    let part = part(
        "1 100.000001 mkdir(\"/kv/made\", 0777) = 0 <0.000001>\n\
         1 100.000002 openat(AT_FDCWD, \"/kv/made/x\", O_WRONLY|O_CREAT|O_TRUNC) = 3 <0.000001>\n\
         1 100.000003 write(3</kv/made/x>, \"\", 10) = 10 <0.000001>\n\
         1 100.000004 rename(\"/kv/made/x\", \"/kv/made/y\") = 0 <0.000001>\n\
         1 100.000005 open(\"/kv/made/y\", O_RDONLY) = 4</kv/made/y> <0.000001>\n\
         1 100.000006 read(4</kv/made/y>, \"\", 10) = 10 <0.000001>\n\
         1 100.000007 stat(\"/kv/d/e\", {st_mode=S_IFDIR|0755}) = 0 <0.000001>\n\
         1 100.000008 open(\"/kv/d/e/log\", O_RDWR|O_CREAT) = 5 <0.000001>\n\
         1 100.000009 pread64(5</kv/d/e/log>, \"\", 4096, 4096) = 100 <0.000001>\n\
         1 100.000010 unlink(\"/kv/old\") = 0 <0.000001>\n\
         1 100.000011 stat(\"/kv/none\", 0x7) = -1 ENOENT (No such file or directory) <0.000001>\n\
         1 100.000012 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 5</kv/d/e/log>, 0) = 0x7f \
         <0.000001>\n\
         1 100.000013 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 6</other>, 0) = 0x7f <0.000001>\n\
         1 100.000014 io_uring_enter(9<anon_inode:[io_uring]>, 1, 1, 0) = 1 <0.000001>\n\
         1 100.000015 fsync(5</kv/d/e/log>) = -1 EIO (Input/output error) <0.000001>\n\
         1 100.000016 stat(\"/etc/x\", 0x7) = 0 <0.000001>\n",
    );
    assert_eq!(before(&part), [("d/e/log", 4196), ("old", 0)]);
    assert_eq!(directories_before(&part), ["d/e"]);
    let left_out = [("failed", 1), ("io_uring_enter", 1), ("mmap", 1)];
    let left_out = left_out.map(|(call, count)| (call, LeftOutCalls { count, bytes: 0 }));
    assert_eq!(part.left_out, left_out.into());
    assert_eq!(part.elsewhere, 1);
}

#[test]
fn a_renamed_directory_brings_its_files() {
    let part = part(
        "1 100.000001 mkdir(\"/kv/s.tmp\", 0777) = 0 <0.000001>\n\
         1 100.000002 open(\"/kv/s.tmp/x\", O_WRONLY|O_CREAT|O_TRUNC) = 3 <0.000001>\n\
         1 100.000003 write(3</kv/s.tmp/x>, \"\", 10) = 10 <0.000001>\n\
         1 100.000004 rename(\"/kv/s.tmp\", \"/kv/s\") = 0 <0.000001>\n\
         1 100.000005 open(\"/kv/s/x\", O_RDONLY) = 4</kv/s/x> <0.000001>\n\
         1 100.000006 open(\"/kv/slab\", O_RDWR) = 5</kv/slab> <0.000001>\n\
         1 100.000007 pwrite64(5</kv/slab>, \"\", 10, 1000) = 10 <0.000001>\n\
         1 100.000008 pread64(5</kv/slab>, \"\", 100, 0) = 100 <0.000001>\n",
    );
    assert_eq!(before(&part), [("slab", 1_010)]);
    assert_eq!(part.directories_before.len(), 0);
}

/// They were taken for files that were there before; then one that was there, and was written at
/// its end, for one that had a hole.
#[test]
fn a_file_that_the_recording_makes_may_be_written_in_any_order() {
    let part = part(
        "1 100.000001 open(\"/kv/x\", O_RDWR|O_CREAT) = 3</kv/x> <0.000001>\n\
         1 100.000002 pwrite64(3</kv/x>, \"\", 100, 300) = 100 <0.000001>\n\
         2 100.000003 pwrite64(3</kv/x>, \"\", 100, 100) = 100 <0.000001>\n\
         1 100.000004 pwrite64(3</kv/x>, \"\", 150, 0) = 150 <0.000001>\n\
         2 100.000004 pwrite64(3</kv/x>, \"\", 100, 200) = 100 <0.000001>\n\
         1 100.000005 pread64(3</kv/x>, \"\", 400, 0) = 400 <0.000001>\n\
         1 100.000005 open(\"/kv/slab\", O_RDWR|O_CREAT) = 5</kv/slab> <0.000001>\n\
         1 100.000005 pwrite64(5</kv/slab>, \"\", 100, 900) = 100 <0.000001>\n\
         1 100.000005 pread64(5</kv/slab>, \"\", 500, 0) = 500 <0.000001>\n\
         1 100.000005 pread64(5</kv/slab>, \"\", 100, 900) = 100 <0.000001>\n\
         1 100.000006 mkdir(\"/kv/made\", 0777) = 0 <0.000001>\n\
         1 100.000007 open(\"/kv/made/y\", O_RDWR|O_CREAT) = 4</kv/made/y> <0.000001>\n\
         1 100.000008 ftruncate(4</kv/made/y>, 1000) = 0 <0.000001>\n\
         1 100.000009 pread64(4</kv/made/y>, \"\", 1000, 0) = 1000 <0.000001>\n\
         1 100.000010 stat(\"/kv/made/sub\", {st_mode=S_IFDIR|0755}) = 0 <0.000001>\n",
    );
    assert_eq!((before(&part), part.directories_before.len()), (vec![("slab", 500)], 0));
}

/// They were looked for where they came later, below a directory that was not there.
#[test]
fn what_is_below_a_renamed_directory_was_before_below_its_old_name() {
    let part = part(
        "1 100.000001 open(\"/kv/a/b/new\", O_RDWR|O_CREAT) = 3</kv/a/b/new> <0.000001>\n\
         1 100.000002 write(3</kv/a/b/new>, \"\", 10) = 10 <0.000001>\n\
         1 100.000003 rename(\"/kv/a/b\", \"/kv/a/c\") = 0 <0.000001>\n\
         1 100.000004 open(\"/kv/a/c/f10\", O_RDONLY) = 4</kv/a/c/f10> <0.000001>\n\
         1 100.000005 read(4</kv/a/c/f10>, \"\", 10) = 10 <0.000001>\n\
         1 100.000006 open(\"/kv/a/c/new\", O_RDONLY) = 5</kv/a/c/new> <0.000001>\n\
         1 100.000007 read(5</kv/a/c/new>, \"\", 10) = 10 <0.000001>\n\
         1 100.000008 rename(\"/kv/a/c\", \"/kv/d\") = 0 <0.000001>\n\
         1 100.000009 open(\"/kv/d/f10\", O_RDONLY) = 6</kv/d/f10> <0.000001>\n\
         1 100.000010 read(6</kv/d/f10>, \"\", 20) = 20 <0.000001>\n\
         1 100.000011 stat(\"/kv/d/e/f\", 0x7) = 0 <0.000001>\n\
         1 100.000012 rename(\"/kv/g\", \"/kv/h\") = 0 <0.000001>\n\
         1 100.000013 stat(\"/kv/h/i\", 0x7) = 0 <0.000001>\n",
    );
    assert_eq!(before(&part), [("a/b/f10", 20), ("a/b/e/f", 0), ("g/i", 0)]);
    assert_eq!(directories_before(&part), ["a/b/e", "g"]);
}

/// 2.5 GiB of writes filled a disk of 1.1 GiB.
#[test]
fn the_space_of_what_is_written_is_that_of_the_files_at_a_time() {
    let mut lines = String::new();
    for name in 0..3 {
        lines += &format!(
            "1 {}00.0 open(\"/kv/{name}\", O_RDWR|O_CREAT) = 3</kv/{name}> <0.1>\n\
             1 {0}01.0 pwrite64(3</kv/{name}>, \"\", 100, 900) = 100 <0.1>\n\
             1 {0}02.0 pwrite64(3</kv/{name}>, \"\", 1000, 0) = 1000 <0.1>\n",
            name + 1
        );
    }
    assert_eq!(part(&lines).written_bytes, 3_000);
    let evicts = "1 250.0 unlink(\"/kv/0\") = 0 <0.1>\n\
                  1 350.0 rename(\"/kv/2\", \"/kv/1\") = 0 <0.1>\n";
    assert_eq!(part(&format!("{lines}{evicts}")).written_bytes, 2_000);
    let others = "1 351.0 pwrite64(7</kv/log>, \"\", 5000, 1000) = 5000 <0.1>\n\
                  1 352.0 pread64(8</kv/old>, \"\", 100, 0) = 100 <0.1>\n\
                  1 353.0 pwrite64(8</kv/old>, \"\", 150, 0) = 150 <0.1>\n\
                  1 354.0 pwrite64(9</kv/sparse>, \"\", 70, 4096) = 70 <0.1>\n";
    let part = part(&format!("{lines}{evicts}{others}"));
    // They may have been there before, and are written over then.
    assert_eq!(part.written_bytes, 2_000);
    assert_eq!(before(&part), [("log", 6_000), ("old", 150), ("sparse", 4_166)]);
}

/// It counted twice when a directory above it had another name, and not at all without a name.
#[test]
fn space_is_that_of_a_file_whatever_its_names_are() {
    let space = |lines: &str| part(lines).written_bytes;
    let renamed = "1 100.0 mkdir(\"/kv/s.tmp\", 0777) = 0 <0.1>\n\
                   1 101.0 open(\"/kv/s.tmp/x\", O_RDWR|O_CREAT) = 3</kv/s.tmp/x> <0.1>\n\
                   1 102.0 write(3</kv/s.tmp/x>, \"\", 1000) = 1000 <0.1>\n\
                   1 103.0 close(3</kv/s.tmp/x>) = 0 <0.1>\n\
                   1 104.0 rename(\"/kv/s.tmp\", \"/kv/s\") = 0 <0.1>\n\
                   1 105.0 open(\"/kv/s/x\", O_RDWR|O_CREAT|O_TRUNC) = 3</kv/s/x> <0.1>\n\
                   1 106.0 write(3</kv/s/x>, \"\", 1000) = 1000 <0.1>\n";
    assert_eq!(space(renamed), 1_000);
    let unlinked = "1 107.0 link(\"/kv/s/x\", \"/kv/y\") = 0 <0.1>\n\
                    1 108.0 unlink(\"/kv/s/x\") = 0 <0.1>\n\
                    1 109.0 unlink(\"/kv/y\") = 0 <0.1>\n\
                    1 110.0 write(3</kv/y (deleted)>, \"\", 3000) = 3000 <0.1>\n";
    let renamed_and_unlinked = format!("{renamed}{unlinked}");
    assert_eq!(space(&renamed_and_unlinked), 4_000);
    let next = "1 112.0 open(\"/kv/z\", O_RDWR|O_CREAT) = 4</kv/z> <0.1>\n\
                1 113.0 write(4</kv/z>, \"\", 2000) = 2000 <0.1>\n";
    assert_eq!(space(&format!("{renamed_and_unlinked}{next}")), 6_000);
    let close = "1 111.0 close(3</kv/y (deleted)>) = 0 <0.1>\n";
    assert_eq!(space(&format!("{renamed_and_unlinked}{close}{next}")), 4_000);
    // What makes room is what was there before.
    let evicts = "1 100.0 open(\"/kv/old\", O_RDONLY) = 5</kv/old> <0.1>\n\
                  1 101.0 read(5</kv/old>, \"\", 1500) = 1500 <0.1>\n\
                  1 102.0 unlink(\"/kv/old\") = 0 <0.1>\n\
                  1 103.0 close(5</kv/old (deleted)>) = 0 <0.1>\n";
    assert_eq!(space(&format!("{evicts}{next}")), 500);
}

/// Each opening wrote over what the one before had written.
#[test]
fn what_is_appended_follows_what_is_there() {
    let mut lines = String::new();
    for second in 100..110 {
        lines += &format!(
            "1 {second}.0 open(\"/kv/log\", O_WRONLY|O_CREAT|O_APPEND) = 3</kv/log> <0.1>\n\
             1 {second}.2 write(3</kv/log>, \"\", 100) = 100 <0.1>\n\
             1 {second}.4 close(3</kv/log>) = 0 <0.1>\n"
        );
    }
    let read = |bytes| {
        format!(
            "1 120.0 open(\"/kv/log\", O_RDONLY) = 3</kv/log> <0.1>\n\
             1 121.0 read(3</kv/log>, \"\", 4096) = {bytes} <0.1>\n"
        )
    };
    let made = part(&format!("{lines}{}", read(1_000)));
    assert_eq!((before(&made), made.written_bytes), (vec![], 1_000));
    let longer = part(&format!("{lines}{}", read(1_500)));
    assert_eq!((before(&longer), longer.written_bytes), (vec![("log", 500)], 1_000));
}

/// The directory was made before, and the second name's file, too.
#[test]
fn failures_and_links_tell_what_is_there() {
    let found = part(
        "1 100.0 mkdir(\"/kv/a/b\", 0777) = -1 ENOENT (No such file or directory) <0.1>\n\
         1 101.0 openat(AT_FDCWD</>, \"kv/c/d\", O_WRONLY|O_CREAT|O_EXCL, 0600) = -1 ENOENT (No \
         such file or directory) <0.1>\n\
         1 102.0 mkdir(\"/kv/a\", 0777) = 0 <0.1>\n\
         1 103.0 mkdir(\"/kv/a/b\", 0777) = 0 <0.1>\n\
         1 104.0 mkdir(\"/kv/e\", 0777) = -1 EEXIST (File exists) <0.1>\n\
         1 105.0 open(\"/kv/f\", O_RDONLY|O_DIRECTORY) = -1 ENOTDIR (Not a directory) <0.1>\n\
         1 106.0 open(\"/kv/f\", O_RDONLY) = 3</kv/f> <0.1>\n\
         1 107.0 read(3</kv/f>, \"\", 4096) = 50 <0.1>\n\
         1 108.0 open(\"/kv/x\", O_WRONLY|O_CREAT) = 4</kv/x> <0.1>\n\
         1 109.0 write(4</kv/x>, \"\", 70) = 70 <0.1>\n\
         1 110.0 linkat(AT_FDCWD</>, \"/kv/x\", AT_FDCWD</>, \"/kv/y\", 0) = 0 <0.1>\n\
         1 111.0 link(\"/kv/x\", \"/kv/y\") = -1 EEXIST (File exists) <0.1>\n\
         1 112.0 renameat2(AT_FDCWD</>, \"/kv/x\", AT_FDCWD</>, \"/kv/y\", RENAME_NOREPLACE) \
         = -1 EEXIST (File exists) <0.1>\n\
         1 113.0 open(\"/kv/y\", O_RDONLY) = 5</kv/y> <0.1>\n\
         1 114.0 read(5</kv/y>, \"\", 4096) = 70 <0.1>\n",
    );
    assert_eq!((before(&found), directories_before(&found)), (vec![("f", 50)], vec!["e"]));
    assert_eq!(told(&found)[10..13], ["link x y", "link x y!", "rename x y!"]);
    let FileAction::Rename { exclusive, .. } = found.operations[12].action else { panic!() };
    assert!(exclusive && found.left_out.is_empty());
}

/// Threads of which each was to be the child of the one before took the stack away.
#[test]
fn clones_that_never_end_make_no_chain() {
    let clone = |thread| format!("{thread} 100.000001 clone(flags=SIGCHLD <unfinished ...>\n");
    let lines: String = (1..20_000).map(clone).collect();
    let part = part(&(lines + "20000 100.000002 unlink(\"/kv/x\") = 0 <0.000001>\n"));
    assert_eq!(told(&part), ["remove x"]);
}

/// Each took memory without end.
#[test]
fn a_recording_that_needs_more_memory_than_is_meant_for_it_is_refused() {
    type LineOf = fn(u32) -> String;
    let open = "1 1.5 open(\"/kv/a\", O_RDWR) = 3</kv/a> <0.1>\n";
    let endless: [(&str, LineOf); 7] = [
        ("bytes of calls that are under way", |n| format!("{n} 1.5 a( <unfinished ...>\n")),
        ("bytes of names of files", |n| format!("1 1.5 stat(\"/{n}\") = -1 EPERM (no) <0.1>\n")),
        ("bytes of names of files", |n| {
            let path = "x".repeat(400);
            format!("{n} 1.5 a(AT_FDCWD</{n}{path}>) = 0 <0.1>\n")
        }),
        ("threads", |n| format!("{n} 1.5 fsync(9) = 0 <0.1>\n")),
        ("threads", |n| format!("{n} 1.5 +++ exited with 0 +++\n{n} 1.5 fsync(9) = 0 <0.1>\n")),
        ("descriptors of open files", |n| format!("1 1.5 dup(3</kv/a>) = {n} <0.1>\n")),
        ("descriptors of open files", |n| match n {
            ..1_000 => format!("1 1.5 dup(3</kv/a>) = {n} <0.1>\n"),
            _ => format!("1 1.5 clone(flags=SIGCHLD) = {n} <0.1>\n"),
        }),
    ];
    for (what, line_of) in endless {
        let lines: String = (10..100_000).map(line_of).collect();
        let error = Recording::read(format!("{open}{lines}").as_bytes()).err().unwrap().to_string();
        assert!(error.contains(what) && error.contains("record a shorter time"), "{error}");
    }
}

#[test]
fn short_names_below_a_directory_that_had_a_long_one_take_bounded_memory() {
    let long = "x".repeat(4_000);
    let mut lines = format!("1 1.5 rename(\"/kv/{long}\", \"/kv/s\") = 0 <0.1>\n");
    lines.extend((0..2_000).map(|n| format!("1 1.6 stat(\"/kv/s/{n}\", 0x7) = 0 <0.1>\n")));
    let error = Part::of(read(&lines), Some("/kv")).unwrap_err().to_string();
    assert!(error.contains("of files and directories: record a shorter time"), "{error}");
}

/// Halves of calls whose threads are gone are counted, and take no memory.
#[test]
fn threads_that_end_in_a_call_leave_nothing_behind() {
    let ends = |n| format!("{n} 1.5 a( <unfinished ...>\n{n} 1.6 +++ killed by SIGKILL +++\n");
    let lines: String = (1..50_000).map(ends).collect();
    let found = read(&(lines + "1 1.7 unlink(\"/kv/x\") = 0 <0.1>\n"));
    assert_eq!(found.untold(), 49_999);
}

#[test]
fn the_directory_is_that_of_all_data_or_must_be_given() {
    let open = |path: &str, fd: u32, call: &str| {
        format!(
            "100.000001 open(\"{path}\", O_RDWR) = {fd} <0.000001>\n\
             100.000002 {call}({fd}<{path}>, \"\", 10) = 10 <0.000001>\n"
        )
    };
    let both = open("/m/kv/a/1", 3, "read") + &open("/m/kv/b/2", 4, "write");
    assert_eq!(Part::of(read(&both), None).unwrap().below, "/m/kv");
    let more = both.clone() + &open("/usr/lib/x", 5, "read") + &open("/dev/null", 6, "write");
    let error = Part::of(read(&more), None).unwrap_err().to_string();
    assert!(error.contains("all that were written are below /m/kv/b"), "{error}");
    let error = Part::of(read(&both), Some("kv")).unwrap_err().to_string();
    assert!(error.contains("--below kv is no path"), "{error}");
    let error = Part::of(read(&both), Some("/m/k")).unwrap_err().to_string();
    assert!(error.contains("no call on a file below /m/k"), "{error}");
    let relative = "100.000001 unlink(\"x\") = 0 <0.000001>\n";
    assert_eq!(read(relative).untold(), 1);
}

#[test]
fn lines_that_are_none_are_counted_and_the_first_is_named() {
    let good = "1 100.000001 unlink(\"/kv/x\") = 0 <0.000001>\n";
    for (line, why) in [
        ("1 12:00:00.000001 unlink(\"/kv/x\") = 0 <0.000001>", "record with -ttt"),
        ("1 100.000001 unlink(\"/kv/x\") = 0", "record with -T"),
        ("1 100.000001 unlink(\"/kv/x) = 0 <0.000001>", "its arguments have no end"),
        ("1 100.000001 unlink(\"/kv/x\"}) = 0 <0.000001>", "its arguments have no end"),
        ("1 100.000001 write(3</kv/x>, \"\", 1) = 9 <0.000001>", "more than it was asked for"),
        ("1 100.000001 write(3</kv/x>, \"\", 4294967296) = 4294967296 <0.1>", "as many bytes"),
        ("1 100.000001 pread64(3</kv/x>, \"\", 1, -5) = 1 <0.000001>", "it has no offset"),
        ("1 100.000001 <... read resumed>\"\", 1) = 1 <0.000001>", "has no begin"),
        ("1 99999999999.1 unlink(\"/kv/x\") = 0 <0.000001>", "it has no time"),
        ("1 100.000001 unlink() = 0 <0.000001>", "is cut"),
        ("nonsense", "it has no time"),
    ] {
        let found = read(&format!("{good}{line}\n{line}\n"));
        assert_eq!(found.skipped().rows, 2, "{line}");
        let first = found.skipped().first.clone().unwrap();
        assert!(first.starts_with("line 2: ") && first.contains(why), "{line}: {first}");
    }
    let error = Recording::read(&b"nonsense\n"[..]).err().unwrap().to_string();
    assert!(error.contains("line 1") && error.contains("strace -f -ttt -T -y"), "{error}");
    let killed = "1 1.5 munmap(0x7, 9) = ? <unavailable>\n";
    let signal = "1 1.5 --- SIGCHLD {si=1} ---\n";
    let empty = "1 1.5 getxattr() = 0 <0.1>\n1 1.5 symlink() = 0 <0.1>\n";
    for quiet in ["", "strace: Process 9 attached\n", signal, killed, empty] {
        let found = read(&format!("{good}{quiet}"));
        assert_eq!(found.skipped().rows, 0, "{quiet}");
    }
}

/// Places that an operation of a lane waits for, with its gap in us.
fn order(order: &Order, lane: usize) -> Vec<(Vec<(u32, u32)>, u64)> {
    let told = |one: &LaneOperation| {
        let after = one.after.iter().map(|after| (after.lane, after.place)).collect();
        (after, one.gap_ns / 1_000)
    };
    order.lanes[lane].iter().map(told).collect()
}

#[test]
fn an_operation_follows_those_without_which_it_would_find_something_else() {
    let part = part(
        "1 100.000000 open(\"/kv/t\", O_WRONLY|O_CREAT|O_EXCL) = 3</kv/t> <0.000010>\n\
         2 100.000002 stat(\"/kv/a\", 0x7) = -1 ENOENT (No such file or directory) <0.000002>\n\
         1 100.000015 write(3</kv/t>, \"\", 10) = 10 <0.000010>\n\
         1 100.000030 close(3</kv/t>) = 0 <0.000001>\n\
         1 100.000031 rename(\"/kv/t\", \"/kv/a\") = 0 <0.000009>\n\
         2 100.000045 open(\"/kv/a\", O_RDONLY) = 4</kv/a> <0.000005>\n\
         2 100.000060 read(4</kv/a>, \"\", 10) = 10 <0.000005>\n\
         1 100.000062 stat(\"/kv/a\", 0x7) = 0 <0.000010>\n\
         1 100.000080 unlink(\"/kv/a\") = 0 <0.000001>\n",
    );
    let found = Order::of(&part).unwrap();
    assert_eq!(found.took_ns, 81_000);
    let none = Vec::new;
    let first = [
        (none(), 0),
        (none(), 5),
        (none(), 5),
        // The name had not been found before.
        (vec![(1, 0)], 0),
        (none(), 22),
        // It was opened before.
        (vec![(1, 1)], 8),
    ];
    assert_eq!(order(&found, 0), first);
    // The rename; what the read needs was written before it. Gaps begin at the end of the last.
    assert_eq!(order(&found, 1), [(none(), 2), (vec![(0, 3)], 5), (none(), 10)]);
}

/// Only the directory right above was waited for.
#[test]
fn what_is_below_a_directory_follows_its_renaming() {
    let part = part(
        "1 100.0 stat(\"/kv/t/a/b\", 0x7) = 0 <0.1>\n\
         2 101.0 rename(\"/kv/t\", \"/kv/d\") = 0 <0.1>\n\
         3 102.0 stat(\"/kv/d/a/b\", 0x7) = 0 <0.1>\n\
         1 110.0 stat(\"/kv/u\", 0x7) = -1 ENOENT (No such file or directory) <0.1>\n\
         2 110.0 stat(\"/kv/u\", 0x7) = -1 ENOENT (No such file or directory) <0.1>\n",
    );
    let found = Order::of(&part).unwrap();
    let after = |lane: usize| order(&found, lane)[0].0.clone();
    assert_eq!((after(1), after(2)), (vec![(0, 0)], vec![(1, 0)]));
}

/// A log that every thread opens with `O_CREAT` had each opening wait for all threads.
#[test]
fn what_is_there_is_opened_without_waiting_for_its_users() {
    let mut lines = String::new();
    for second in 100..200 {
        let open = "open(\"/kv/log\", O_WRONLY|O_CREAT|O_APPEND) = 3</kv/log> <0.1>";
        lines += &format!("{} {second}.0 {open}\n", second % 4);
        lines += &format!("{} {second}.5 stat(\"/kv/log\", 0x7) = 0 <0.1>\n", second % 3);
    }
    let found = Order::of(&part(&lines)).unwrap();
    let after = found.lanes.iter().flatten().map(|one| one.after.len()).sum::<usize>();
    assert_eq!(after, found.lanes.len() - 1, "each other lane waits for the first opening");
}

#[test]
fn threads_that_follow_each_other_share_a_lane() {
    let mut lines = String::new();
    for thread in 1..=100 {
        let second = 100 + thread;
        let is_late = if thread % 2 == 0 { 2 } else { 1 };
        lines += &format!("{thread} {second}.0 unlink(\"/kv/{thread}\") = 0 <{is_late}.5>\n");
    }
    let found = Order::of(&part(&lines)).unwrap();
    assert_eq!(found.lanes.len(), 3);
    assert_eq!(found.lanes.iter().map(Vec::len).sum::<usize>(), 100);
}

/// Each operation that is waited for began earlier.
#[test]
fn no_two_operations_wait_for_each_other() {
    let mut state = 42;
    let mut next = |most: u64| {
        state = crate::rng::mix64(state + 1) >> 1;
        state % most
    };
    for _ in 0..50 {
        let mut lines = String::new();
        for _ in 0..200 {
            let (thread, file, took) = (next(6), next(4), next(40));
            let call = match next(4) {
                0 => format!("stat(\"/kv/{file}\", 0x7) = 0"),
                1 => format!("unlink(\"/kv/{file}\") = 0"),
                2 => format!("rename(\"/kv/{file}\", \"/kv/{}\") = 0", next(4)),
                _ => format!("write({file}</kv/{file}>, \"\", 10) = 10"),
            };
            lines += &format!("{thread} 100.{:06} {call} <0.{took:06}>\n", next(1_000));
        }
        let found = Order::of(&part(&lines)).unwrap();
        let mut ended = vec![0; found.lanes.len()];
        let mut goes_on = true;
        while std::mem::take(&mut goes_on) {
            for (lane, operations) in found.lanes.iter().enumerate() {
                let has_ended = |after: &After| after.place < ended[after.lane as usize];
                let next = operations.get(ended[lane] as usize);
                if next.is_some_and(|next| next.after.iter().all(has_ended)) {
                    ended[lane] += 1;
                    goes_on = true;
                }
            }
        }
        let all: Vec<u32> = found.lanes.iter().map(|lane| lane.len() as u32).collect();
        assert_eq!(ended, all);
    }
}

/// A file that another thread was just giving its name was not found.
#[test]
fn what_begins_while_a_name_changes_follows_that() {
    let part = part(
        "1 100.0 open(\"/kv/t\", O_WRONLY|O_CREAT|O_EXCL) = 3</kv/t> <0.1>\n\
         1 101.0 rename(\"/kv/t\", \"/kv/a\") = 0 <5.0>\n\
         2 102.0 open(\"/kv/a\", O_RDONLY) = 4</kv/a> <5.0>\n\
         3 103.0 unlink(\"/kv/a\") = 0 <5.0>\n",
    );
    let found = Order::of(&part).unwrap();
    assert_eq!(order(&found, 1), [(vec![(0, 1)], 0)]);
    assert_eq!(order(&found, 2), [(vec![(0, 1), (1, 0)], 0)]);
}

/// The call that closes the other file closed the one that got its number meanwhile.
#[test]
fn a_number_may_be_another_file_s_before_its_closing_has_ended() {
    let thread = "1 100.0 clone(child_stack=NULL, flags=CLONE_FILES) = 2 <0.1>\n";
    let lines = "1 101.0 open(\"/kv/a\", O_RDONLY) = 3</kv/a> <0.1>\n\
                 1 102.0 close(3</kv/a> <unfinished ...>\n\
                 2 103.0 open(\"/kv/b\", O_RDONLY) = 3</kv/b> <0.1>\n\
                 1 104.0 <... close resumed>) = 0 <2.0>\n\
                 2 105.0 read(3</kv/b>, \"\", 10) = 10 <0.1>\n\
                 2 106.0 close(3</kv/b> <unfinished ...>\n\
                 2 107.0 +++ killed by SIGKILL +++\n";
    let found = part(&format!("{thread}{lines}"));
    assert_eq!(told(&found), ["open a", "close 0", "open b", "read 1 0 10", "+close 1"]);
}

/// Every child that had executed another program had them open for ever: ten times one MiB were to
/// fit beside each other.
#[test]
fn a_program_that_is_executed_has_no_descriptor_that_closes_by_that() {
    let round = |round: u32, opens: &str, child: &str| {
        let (second, pid) = (100 + 10 * round, 1_000 + round);
        let path = format!("3</kv/{round}>");
        format!(
            "1 {second}.0 openat(AT_FDCWD</>, \"/kv/{round}\", O_WRONLY|O_CREAT{opens}) = {path} \
             <0.1>\n\
             1 {second}.1 fcntl({path}, F_SETFD, FD_CLOEXEC) = 0 <0.1>\n\
             1 {second}.2 vfork( <unfinished ...>\n{}\
             1 {second}.4 <... vfork resumed>) = {pid} <0.1>\n\
             1 {second}.5 write({path}, \"\", 1000) = 1000 <0.1>\n\
             1 {second}.6 close({path}) = 0 <0.1>\n\
             1 {second}.7 unlink(\"/kv/{round}\") = 0 <0.1>\n",
            child.replace("PID", &pid.to_string()).replace("TIME", &format!("{second}.3"))
        )
    };
    let execve = "PID TIME execve(\"/bin/sleep\", [\"sleep\"], 0x7 /* 9 vars */) = 0 <0.1>\n";
    let superseded = "PID TIME clone(flags=CLONE_FILES|CLONE_THREAD) = 9PID <0.1>\n\
                      9PID TIME execve(\"/bin/sleep\", [\"sleep\"], 0x7 <unfinished ...>\n\
                      PID TIME +++ superseded by execve in pid 9PID +++\n\
                      PID TIME <... execve resumed>) = 0 <0.1>\n";
    for (opens, child, most) in [
        ("|O_CLOEXEC", execve, 1_000),
        ("|O_CLOEXEC", superseded, 1_000),
        ("", execve, 1_000),
        ("", "PID TIME close_range(3, 4294967295, 0) = 0 <0.1>\n", 1_000),
        ("", "PID TIME dup2(3, 5) = 5 <0.1>\n", 10_000),
        ("", &format!("PID TIME ioctl(3, FIONCLEX) = 0 <0.1>\n{execve}"), 10_000),
        ("", &format!("PID TIME dup3(3, 5, O_CLOEXEC) = 5 <0.1>\n{execve}"), 1_000),
        ("", &format!("PID TIME fcntl(3, F_DUPFD, 9) = 9 <0.1>\n{execve}"), 10_000),
        ("", &execve.replace(" = 0", " = -1 ENOENT (No such file or directory)"), 10_000),
    ] {
        let lines: String = (0..10).map(|number| round(number, opens, child)).collect();
        let part = part(&lines);
        assert_eq!(part.written_bytes, most, "{opens} {child}");
        assert_eq!(part.skipped, Default::default(), "{child}");
    }
}

/// It went to the process that had begun a call of clone last.
#[test]
fn a_child_is_that_of_the_call_that_returns_its_number() {
    let begins = |thread, name: &str| {
        format!(
            "{thread} 100.0 open(\"/kv/{name}\", O_WRONLY|O_CREAT) = 3</kv/{name}> <0.1>\n\
             {thread} 101.0 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n"
        )
    };
    let part = part(&format!(
        "{}{}\
         11 102.0 write(3, \"\", 10) = 10 <0.1>\n\
         21 102.0 write(3, \"\", 20) = 20 <0.1>\n\
         2 103.0 <... clone resumed>, child_tidptr=0x7) = 21 <2.0>\n\
         1 103.0 <... clone resumed>, child_tidptr=0x7) = 11 <2.0>\n",
        begins(1, "a"),
        begins(2, "b")
    ));
    assert_eq!(told(&part)[2..], ["write 0 0 10", "write 1 0 20"]);
}

/// They were counted by their first path alone, and what they had copied was missing after.
#[test]
fn what_touches_the_directory_and_is_not_replayed_is_counted_with_its_bytes() {
    let part = part(
        "1 100.0 open(\"/src/big\", O_RDONLY) = 3</src/big> <0.1>\n\
         1 101.0 open(\"/kv/big\", O_RDWR|O_CREAT|O_TRUNC) = 4</kv/big> <0.1>\n\
         1 102.0 copy_file_range(3</src/big>, NULL, 4</kv/big>, NULL, 9, 0) = 1572864 <0.1>\n\
         1 103.0 sendfile(4</kv/big>, 3</src/big>, [0] => [100], 100) = 100 <0.1>\n\
         1 103.5 copy_file_range(3</src/big>, [0], 6</src/x>, [18446744073709551615], 9, 0) = 9 \
         <0.1>\n\
         1 104.0 sendfile(5<socket:[7]>, 4</kv/big>, NULL, 100) = 50 <0.1>\n\
         1 105.0 read(4</kv/big>, \"\", 10) = 10 <0.1>\n\
         1 106.0 chdir(\"/kv\") = 0 <0.1>\n\
         1 107.0 symlink(\"../x\", \"l\") = 0 <0.1>\n\
         1 108.0 symlinkat(\"/kv/a\", AT_FDCWD, \"/src/l\") = 0 <0.1>\n\
         1 109.0 fchmod(4</kv/big>, 0600) = 0 <0.1>\n\
         1 110.0 ioctl(4</kv/big>, TCGETS, 0x7) = -1 ENOTTY (Inappropriate ioctl) <0.1>\n\
         1 111.0 close(-1) = -1 EBADF (Bad file descriptor) <0.1>\n",
    );
    let counted = |count, bytes| LeftOutCalls { count, bytes };
    let left_out = [
        ("copy_file_range", counted(1, 1_572_864)),
        ("fchmod", counted(1, 0)),
        ("sendfile", counted(2, 150)),
        ("symlink", counted(1, 0)),
    ];
    assert_eq!(part.left_out, left_out.into());
    let copied = ["+write 0 0 1048576", "+write 0 1048576 524288", "+write 0 1572864 100"];
    assert_eq!(told(&part)[1..4], copied);
    assert_eq!(told(&part)[4..], ["read 0 1573014 10"]);
    assert_eq!((part.written_bytes, part.skipped), (1_572_964, Default::default()));
}

/// It was one file that was there before, and stayed.
#[test]
fn a_file_without_a_name_takes_space_until_it_is_closed() {
    let open = "openat(AT_FDCWD</>, \"/kv\", O_RDWR|O_TMPFILE, 0600) = 3</kv/#7>(deleted)";
    let part = part(&format!(
        "1 100.0 {open} <0.1>\n\
         1 101.0 write(3</kv/#7>(deleted), \"\", 1000) = 1000 <0.1>\n\
         1 102.0 close(3</kv/#7>(deleted)) = 0 <0.1>\n\
         1 103.0 {open} <0.1>\n\
         1 104.0 write(3</kv/#7>(deleted), \"\", 700) = 700 <0.1>\n\
         1 105.0 linkat(AT_FDCWD</>, \"/proc/self/fd/3\", AT_FDCWD</>, \"/kv/a\", \
         AT_SYMLINK_FOLLOW) = 0 <0.1>\n\
         1 106.0 linkat(3</kv/#7>(deleted), \"\", AT_FDCWD</>, \"/kv/b\", AT_EMPTY_PATH) \
         = 0 <0.1>\n\
         1 107.0 close(3</kv/#7>(deleted)) = 0 <0.1>\n\
         1 108.0 open(\"/kv/a\", O_RDONLY) = 3</kv/a> <0.1>\n\
         1 109.0 read(3</kv/a>, \"\", 1000) = 700 <0.1>\n"
    ));
    let expected = [
        "create #7",
        "write 0 0 1000",
        "+remove #7",
        "close 0",
        "create #7",
        "write 1 0 700",
        "link #7 a",
        "link #7 b",
        "+remove #7",
        "close 1",
        "open a",
        "read 2 0 1000",
    ];
    assert_eq!(told(&part), expected);
    assert_eq!((part.files_before.len(), part.written_bytes), (0, 1_000));
}

/// The shortest call was taken for what strace adds, however many threads it served.
#[test]
fn what_strace_adds_follows_from_short_calls_and_the_stops_of_others() {
    let mut lines: String = (1..=100)
        .map(|n| format!("1 99.{n:03} lseek(9</x>, 0, SEEK_SET) = 0 <0.000{n:03}>\n"))
        .collect();
    // Twice their mean.
    assert_eq!(read(&lines).strace_ns(), 101_000);
    assert_eq!(read(&lines.replacen("lseek", "fsync", 1)).strace_ns(), 100_000, "99 calls");
    lines += "1 100.0 clone(flags=CLONE_FILES|CLONE_THREAD) = 2 <0.1>\n\
              1 100.1 clone(flags=CLONE_FILES|CLONE_THREAD) = 3 <0.1>\n\
              2 101.0 pread64(9</kv/a>,  <unfinished ...>\n\
              3 101.1 getpid() = 1 <0.1>\n\
              2 101.2 <... pread64 resumed>\"\", 10, 0) = 10 <0.1>\n\
              2 102.0 pread64(9</kv/a>, \"\", 10, 0) = 10 <0.1>\n\
              2 103.0 pread64(9</kv/a>,  <unfinished ...>\n";
    lines += &"3 103.1 getpid() = 1 <0.1>\n".repeat(9);
    lines += "2 104.0 <... pread64 resumed>\"\", 10, 0) = 10 <0.1>\n";
    let part = part(&lines);
    let waits: Vec<u32> = part.operations.iter().map(|one| one.strace_waits).collect();
    // Its own opening; never more than the other threads.
    assert_eq!((part.strace_ns, waits), (101_000, vec![0, 1, 0, 2]));
}
