use std::path::{Path, PathBuf};
use std::time::Instant;

use ringfall_engine::clock::SECOND;

use super::card::{Card, Machine, Message, Posts as _, State};
use super::directory::Directory;
use super::keeper::{ranks, told_awaited};
use super::members::{Age, Members, Sighting};
use super::*;

fn scratch(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ringfall-meet-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn join(directory: &Path, rank: u32, size: u32) -> Group {
    let board = Box::new(board(directory, rank, size));
    Group::join(&Party { rank, size, host: format!("node{rank}") }, board).unwrap()
}

fn board(directory: &Path, rank: u32, size: u32) -> Directory {
    Directory::new(directory, Some("job 1/2"), rank, size)
}

/// Waits for something that comes; a test that waits in vain fails.
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn card(rank: u32, nonce: u64, beat: u64, state: State) -> Card {
    Card { nonce, beat, state, ..Card::new(rank, "node", 5) }
}

fn seen(card: &Card) -> Sighting {
    Sighting::Card { card: card.clone(), is_gone: false, age: Age::New }
}

#[test]
fn all_begin_at_the_same_moment_and_leave_nothing() {
    let directory = scratch("all");
    let ranks: Vec<Group> = (0..3).map(|rank| join(&directory, rank, 3)).collect();
    ranks[0].ready();
    eventually(|| ranks[0].awaits().contains("still preparing").then_some(()));
    assert!(ranks.iter().all(|rank| rank.begins().is_none()));
    ranks[1].ready();
    ranks[2].ready();
    let begins: Vec<Nanos> = ranks.iter().map(|rank| eventually(|| rank.begins())).collect();
    let apart = *begins.iter().max().unwrap() - *begins.iter().min().unwrap();
    assert!(apart < SECOND, "{begins:?}");
    ranks.iter().for_each(Group::leave);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(&directory).unwrap();
}

const NEWS: Topic = Topic("news");
const ORDER: Topic = Topic("order");

fn never() -> bool {
    false
}

#[test]
fn words_go_to_the_first_rank_and_from_it_to_all_and_old_ones_count_no_more() {
    let directory = scratch("words");
    // What a dead launch has said to the same topic.
    for rank in 0..3 {
        let mut old = board(&directory, rank, 3);
        for topic in [NEWS, ORDER] {
            old.put(topic.0, &[[9; 16].as_slice(), b"old"].concat()).unwrap();
        }
    }
    let ranks: Vec<Group> = (0..3).map(|rank| join(&directory, rank, 3)).collect();
    for (round, said) in ["one", "two"].into_iter().enumerate() {
        for rank in &ranks[1..] {
            rank.say(NEWS, format!("{said} of {}", rank.rank()).into_bytes());
        }
        let words = ranks[0].gather(NEWS, &never).unwrap();
        let told: Vec<String> =
            words.iter().map(|word| String::from_utf8(word.bytes.clone()).unwrap()).collect();
        assert_eq!(told, [format!("{said} of 1"), format!("{said} of 2")], "round {round}");
        ranks[0].say(ORDER, said.into());
        for rank in &ranks[1..] {
            assert_eq!(rank.hear_first(ORDER, &never).unwrap(), said.as_bytes());
            assert!(rank.heard(ORDER).is_empty(), "once");
        }
    }
    assert_eq!(ranks[0].gather(NEWS, &|| true), Err(Silence::Over));
    ranks[1].say(NEWS, b"last".to_vec());
    ranks[2].leave();
    // One of those who are still there has said it, and nobody waits for the other.
    let words = ranks[0].gather_from_those_left(NEWS, Duration::from_secs(60));
    assert_eq!(words, [Word { rank: 1, bytes: b"last".to_vec() }]);
    ranks[1].leave();
    assert!(ranks[0].see_off(Duration::from_secs(60)));
    ranks[0].leave();
    drop(ranks);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// One that could not begin had come and gone before the others looked: they waited ten minutes.
#[test]
fn a_rank_that_fails_before_the_others_join_ends_them_and_the_last_out_takes_all_away() {
    let directory = scratch("fails-first");
    let first = join(&directory, 1, 2);
    first.fail("too few open files");
    drop(first);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "the others have to hear of it");
    let other = join(&directory, 0, 2);
    other.ready();
    let why = eventually(|| other.failure());
    assert!(why.contains("rank 1 on node1 ended early: too few open files"), "{why}");
    drop(other);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "nobody is to come any more");
    std::fs::remove_dir_all(&directory).unwrap();
}

/// A rank that failed in the launch before, and has begun again with what was wrong mended.
#[test]
fn a_failure_of_the_launch_before_ends_nobody_once_its_rank_has_come_again() {
    let failed = Card { why: "too few open files".to_owned(), ..card(1, 7, 3, State::Failed) };
    let before = |age| Sighting::Card { card: failed.clone(), is_gone: true, age };
    let mut members = Members::new(0..2, 0, 1);
    members.see(1, before(Age::Recent), SECOND).unwrap();
    members.see(1, before(Age::Recent), 5 * SECOND).unwrap();
    members.see(1, seen(&card(1, 8, 1, State::Ready)), 5 * SECOND + SECOND / 2).unwrap();
    members.see(1, seen(&card(1, 8, 2, State::Ready)), 7 * SECOND).unwrap();
    assert_eq!((members.culprit(), members.missing()), (None, vec![0]));

    // Nobody came in its place: it is of this launch.
    let mut members = Members::new(0..2, 0, 1);
    members.see(1, before(Age::Recent), SECOND).unwrap();
    assert_eq!(members.see(1, before(Age::Recent), 6 * SECOND).unwrap_err(), "too few open files");
    let mut members = Members::new(0..2, 0, 1);
    assert_eq!(members.see(1, before(Age::New), SECOND).unwrap_err(), "too few open files");
    members = Members::new(0..2, 0, 1);
    members.see(1, before(Age::Old), SECOND).unwrap();
    members.see(1, before(Age::Old), 60 * SECOND).unwrap();
    assert_eq!(members.culprit(), None);
}

#[test]
fn what_dead_launches_left_is_reclaimed_and_what_lives_is_not() {
    let directory = scratch("reclaims");
    let put = |launch: &str, has_left: bool, age: Duration| {
        let path = directory.join(format!(".ringfall-ranks-{launch}"));
        std::fs::create_dir_all(&path).unwrap();
        let card = Card { has_left, ..Card::new(0, "node", 5) };
        for (name, bytes) in [("rank_0.card", serde_json::to_vec(&card).unwrap()), ("x", vec![])] {
            std::fs::write(path.join(name), bytes).unwrap();
            let file = std::fs::File::options().write(true).open(path.join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        path
    };
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let gone = [put("left", true, minutes(2)), put("dead", false, minutes(25 * 60))];
    let kept = [put("alive", false, minutes(2)), put("just-left", true, minutes(0))];
    join(&directory, 0, 2).leave();
    assert!(gone.iter().all(|path| !path.exists()), "{gone:?}");
    assert!(kept.iter().all(|path| path.exists()), "{kept:?}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_moment_is_the_same_for_who_hears_of_it_later() {
    let directory = scratch("moment");
    let ranks: Vec<Group> = (0..2).map(|rank| join(&directory, rank, 2)).collect();
    let moment = ranks[0].moment_ahead();
    std::thread::sleep(Duration::from_millis(20));
    let left = ranks[1].until(&moment);
    assert!(left < Duration::from_millis(490), "{left:?}");
    ranks.iter().for_each(Group::leave);
    drop(ranks);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_rank_that_fails_ends_the_others_before_and_after_the_begin() {
    for has_begun in [false, true] {
        let directory = scratch(&format!("fails-{has_begun}"));
        let ranks: Vec<Group> = (0..3).map(|rank| join(&directory, rank, 3)).collect();
        if has_begun {
            ranks.iter().for_each(Group::ready);
            assert!(ranks.iter().all(|rank| eventually(|| rank.begins()) > Nanos::ZERO));
        } else {
            let all_are_there = || ranks[0].awaits().contains("preparing").then_some(());
            ranks[0].ready();
            eventually(all_are_there);
        }
        ranks[2].fail("the drive is gone");
        let why = eventually(|| ranks[0].failure());
        assert_eq!(why, "rank 2 on node2 ended early: the drive is gone");
        let why = eventually(|| ranks[1].failure());
        assert_eq!(why, "rank 2 on node2 ended early: the drive is gone");
        drop(ranks);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

#[test]
fn what_a_dead_launch_left_is_not_taken_for_alive() {
    let directory = scratch("leftovers");
    board(&directory, 1, 2).put_card(&card(1, 9, 7, State::Running)).unwrap();
    let (start_unix_ns, why) = (u64::MAX, "old".to_owned());
    let old = Message { nonces: vec![9], start_unix_ns, start_in_ns: 0, why };
    board(&directory, 0, 2).put_start(&old).unwrap();
    board(&directory, 0, 2).put_stop(&old).unwrap();
    let first = join(&directory, 0, 2);
    first.ready();
    eventually(|| first.awaits().contains("rank 1, which is not there yet").then_some(()));
    let second = join(&directory, 1, 2);
    assert_eq!((first.begins(), second.begins()), (None, None));
    second.ready();
    eventually(|| first.begins().and(second.begins()));
    assert_eq!((first.failure(), second.failure()), (None, None));
    first.leave();
    second.leave();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn two_runs_that_are_the_same_rank_are_told() {
    let directory = scratch("twice");
    let one = join(&directory, 1, 2);
    let other = join(&directory, 1, 2);
    let why = eventually(|| one.failure().or(other.failure()));
    assert!(why.contains("another run is rank 1"), "{why}");
    drop((one, other));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_silent_rank_is_given_up_and_one_that_has_ended_is_not() {
    let mut members = Members::new(1..4, 0, 100);
    let see = |members: &mut Members, rank, sighting, at| members.see(rank, sighting, at);
    for rank in 1..4 {
        let nonce = u64::from(rank);
        see(&mut members, rank, seen(&card(rank, nonce, 1, State::Ready)), SECOND).unwrap();
        assert_eq!(members.awaited(), vec![1, 2, 3], "a card is not a sign of life");
    }
    for rank in 1..4 {
        let nonce = u64::from(rank);
        see(&mut members, rank, seen(&card(rank, nonce, 2, State::Ready)), 2 * SECOND).unwrap();
    }
    assert_eq!((members.awaited(), members.nonces()), (vec![], vec![1, 2, 3, 100]));
    members.begin();
    // One ends, one begins its next run, one falls silent.
    see(&mut members, 1, Sighting::Nothing, 3 * SECOND).unwrap();
    see(&mut members, 2, seen(&card(2, 77, 0, State::Preparing)), 3 * SECOND).unwrap();
    assert_eq!(members.watched(), vec![3]);
    see(&mut members, 3, Sighting::Unreadable, 22 * SECOND).unwrap();
    let told = see(&mut members, 3, seen(&card(3, 3, 2, State::Ready)), 23 * SECOND).unwrap_err();
    assert!(told.contains("rank 3") && told.contains("no sign of life for 21 s"), "{told}");
    assert_eq!(members.culprit(), Some(told.as_str()));
}

#[test]
fn a_rank_whose_process_is_gone_is_known_at_once() {
    let mut members = Members::new(1..2, 0, 100);
    members.see(1, seen(&card(1, 1, 1, State::Ready)), SECOND).unwrap();
    members.see(1, seen(&card(1, 1, 2, State::Ready)), SECOND).unwrap();
    let gone = Sighting::Card { card: card(1, 1, 2, State::Ready), is_gone: true, age: Age::New };
    let told = members.see(1, gone, SECOND).unwrap_err();
    assert!(told.contains("was killed"), "{told}");
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let of_child = Card { pid: child.id(), ..card(1, 1, 1, State::Ready) };
    // It has ended, and nobody has waited for it yet.
    eventually(|| of_child.is_gone(&Machine::this()).then_some(()));
    child.wait().unwrap();
    assert!(of_child.is_gone(&Machine::this()));
    assert!(!card(1, 1, 1, State::Ready).is_gone(&Machine::this()), "this process");
}

#[test]
fn ranks_are_named_and_many_are_counted() {
    assert_eq!(ranks(&[2]), "rank 2");
    assert_eq!(ranks(&[2, 5]), "ranks 2, 5");
    let many: Vec<u32> = (0..20).collect();
    assert_eq!(ranks(&many), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more");
    let told = told_awaited(&[1, 2, 3], &[2]);
    let expected = "waiting for rank 2, which is not there yet; and for ranks 1, 3, which are \
                    still preparing";
    assert_eq!(told, expected);
}

#[test]
fn what_is_shared_out_stays_whole_and_even() {
    for (all, size) in [(0, 3), (1, 3), (7, 3), (9, 3), (5, 1)] {
        let shares: Vec<u32> = (0..size).map(|rank| share(all, rank, size)).collect();
        assert_eq!(shares.iter().sum::<u32>(), all);
        assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
    }
}

#[test]
fn what_lies_under_a_rank_s_name_and_is_no_word_of_it_is_an_error_and_holds_nobody_up() {
    let path = scratch("garbage");
    let (mut one, mut other) = (board(&path, 0, 2), board(&path, 1, 2));
    one.put("word", b"short").unwrap();
    assert_eq!(other.get(0, "word").unwrap().as_deref(), Some(&b"short"[..]));
    let directories = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
    let file = directories.map(|launch| launch.join("rank_0.word")).find(|file| file.exists());
    let file = file.unwrap();
    // Sparse: it takes no room here, and would take all memory if it were read.
    std::fs::File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
    let error = other.get(0, "word").unwrap_err().to_string();
    assert!(error.contains("more than any rank says"), "{error}");
    std::fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    let error = other.get(0, "word").unwrap_err().to_string();
    assert!(error.contains("it is a named pipe"), "{error}");
    std::fs::remove_dir_all(&path).unwrap();
}
