use std::path::Path;
use std::time::Instant;

use ringfall_config::MeetsBy;
use ringfall_core::clock::SECOND;
use ringfall_host::Scratch;

use super::card::{Card, StartSignal, State};
use super::directory::Directory;
use super::keeper::{ranks, told_awaited};
use super::members::Members;
use super::*;

const LAUNCH: &str = "job 1/2";

pub(crate) fn join(directory: &Path, rank: u32, size: u32) -> Group {
    let party = Party { rank, size, host: format!("node{rank}") };
    let session = Session::open(MeetsBy::Directory(directory), Some(LAUNCH), party).unwrap();
    session.join().unwrap()
}

fn board(directory: &Path, rank: u32, size: u32) -> Directory {
    Directory::new(directory, Some(LAUNCH), rank, size)
}

/// Waits for something that comes; a test that waits in vain fails.
pub(crate) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn card(nonce: u64, beat: u64, state: State) -> Card {
    Card { nonce, beat, state, ..Card::new("node", 1) }
}

fn failed(nonce: u64, why: &str) -> Card {
    card(nonce, 1, State::Failed(why.to_owned()))
}

#[test]
fn all_begin_at_the_same_moment_and_leave_nothing() {
    let directory = Scratch::new("all");
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
    assert_eq!(std::fs::read_dir(&*directory).unwrap().count(), 0);
}

const NEWS: Topic = Topic("news");
const ORDER: Topic = Topic("order");

fn never() -> bool {
    false
}

#[test]
fn words_go_to_the_first_rank_and_from_it_to_all_and_old_ones_count_no_more() {
    let directory = Scratch::new("words");
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
            rank.say(NEWS, &format!("{said} of {}", rank.rank()));
        }
        let told = ranks[0].gather::<String>(NEWS, &never).unwrap();
        assert_eq!(told, [format!("{said} of 1"), format!("{said} of 2")], "round {round}");
        ranks[0].say(ORDER, &said);
        for rank in &ranks[1..] {
            assert_eq!(rank.hear_first::<String>(ORDER, &never).unwrap(), said);
            assert!(rank.heard::<String>(ORDER).is_empty(), "once");
        }
    }
    assert_eq!(ranks[0].gather::<String>(NEWS, &|| true), Err(Silence::Over));
    ranks[1].say_bytes(NEWS, b"last".to_vec());
    ranks[2].leave();
    // One of those who are still there has said it, and nobody waits for the other.
    let words = ranks[0].gather_from_those_left(NEWS, Duration::from_secs(60));
    assert_eq!(words, [Word { rank: 1, bytes: b"last".to_vec() }]);
    ranks[1].leave();
    assert!(ranks[0].see_off(Duration::from_secs(60)));
    ranks[0].leave();
}

/// One that could not begin had come and gone before the others looked: they waited ten minutes.
#[test]
fn a_rank_that_fails_before_the_others_join_ends_them_and_the_last_out_takes_all_away() {
    let directory = Scratch::new("fails-first");
    let first = join(&directory, 1, 2);
    first.fail("too few open files");
    drop(first);
    assert_eq!(std::fs::read_dir(&*directory).unwrap().count(), 1, "the others have to hear of it");
    let other = join(&directory, 0, 2);
    other.ready();
    let why = eventually(|| other.failure());
    assert!(why.contains("rank 1 on node1 ended early: too few open files"), "{why}");
    drop(other);
    assert_eq!(std::fs::read_dir(&*directory).unwrap().count(), 0, "nobody is to come any more");
}

/// A rank that failed in the launch before, and has begun again with what was wrong mended.
#[test]
fn a_failure_of_the_launch_before_ends_nobody_once_its_rank_has_come_again() {
    let before = failed(7, "too few open files");
    let mut members = Members::new(1..2, 1);
    members.see(1, Some(before.clone()), SECOND).unwrap();
    members.see(1, Some(before.clone()), 19 * SECOND).unwrap();
    members.see(1, Some(card(8, 1, State::Ready)), 20 * SECOND).unwrap();
    assert_eq!(members.missing(), [1], "a card is not a sign of life");
    members.see(1, Some(card(8, 2, State::Ready)), 21 * SECOND).unwrap();
    assert_eq!((members.missing(), members.nonces()), (vec![], vec![(1, 8)]));

    // Nobody came in its place: it is of this launch.
    let mut members = Members::new(1..2, 1);
    members.see(1, Some(before.clone()), SECOND).unwrap();
    let why = members.see(1, Some(before), 22 * SECOND).unwrap_err();
    assert_eq!((&*why, members.missing()), ("too few open files", vec![]));
}

/// Rank 0 began its second trial with a rank that still handed over the results of its first.
#[test]
fn a_rank_that_is_still_in_the_trial_before_is_not_ready_for_the_next() {
    let mut members = Members::new(1..2, 2);
    for beat in 1..4 {
        members.see(1, Some(card(5, beat, State::Ready)), beat * SECOND).unwrap();
    }
    assert_eq!((members.awaited(), members.missing()), (vec![1], vec![1]));
    let left = Card { has_left: true, ..card(5, 4, State::Ended) };
    members.see(1, Some(left), 4 * SECOND).unwrap();
    for beat in 1..3 {
        let next = Card { meeting: 2, ..card(6, beat, State::Ready) };
        members.see(1, Some(next), (4 + beat) * SECOND).unwrap();
    }
    assert_eq!((members.awaited(), members.nonces()), (vec![], vec![(1, 6)]));
}

/// Ranks of one launch that all fail at once, as by a flag that is misspelled for all of them.
#[test]
fn ranks_that_all_fail_at_once_leave_nothing() {
    let directory = Scratch::new("all-fail");
    for rank in [0, 2, 1] {
        join(&directory, rank, 3).fail("--users is misspelled");
    }
    assert_eq!(std::fs::read_dir(&*directory).unwrap().count(), 0);
}

#[test]
fn a_moment_is_the_same_for_who_hears_of_it_later() {
    let directory = Scratch::new("moment");
    let ranks: Vec<Group> = (0..2).map(|rank| join(&directory, rank, 2)).collect();
    let moment = ranks[0].moment_ahead();
    std::thread::sleep(Duration::from_millis(20));
    let left = ranks[1].until(&moment);
    assert!(left < Duration::from_millis(490), "{left:?}");
    ranks.iter().for_each(Group::leave);
}

#[test]
fn a_rank_that_fails_ends_the_others_before_and_after_the_begin() {
    for has_begun in [false, true] {
        let directory = Scratch::new("fails");
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
    }
}

#[test]
fn what_a_dead_launch_left_is_not_taken_for_alive() {
    let directory = Scratch::new("leftovers");
    let start = StartSignal { nonces: vec![9], moment: Moment::after(Duration::ZERO) };
    let old = Card { start: Some(start), ..card(9, 7, State::Ready) };
    for rank in 0..2 {
        old.show(&mut board(&directory, rank, 2)).unwrap();
    }
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
    assert_eq!(std::fs::read_dir(&*directory).unwrap().count(), 0);
}

/// The newcomer ended a healthy launch.
#[test]
fn a_second_run_that_is_the_same_rank_is_refused_and_the_first_goes_on() {
    let directory = Scratch::new("twice");
    let one = join(&directory, 1, 2);
    let party = Party { rank: 1, size: 2, host: "node1".to_owned() };
    let refused = Group::join(&party, Box::new(board(&directory, 1, 2)), 1);
    let why = refused.map(drop).unwrap_err().to_string();
    assert!(why.contains("another run is rank 1"), "{why}");
    let mut look = board(&directory, 0, 2);
    let mut beat = || Card::read(&mut look, 1).unwrap().map_or(0, |card| card.beat);
    let before = beat();
    eventually(|| (beat() > before + 2).then_some(()));
    assert_eq!(one.failure(), None);
}

#[test]
fn a_silent_rank_is_given_up_and_one_that_has_ended_is_not() {
    let mut members = Members::new(1..5, 1);
    for (beat, awaited) in [(1, vec![1, 2, 3, 4]), (2, vec![])] {
        for rank in 1..5 {
            let card = card(rank.into(), beat, State::Ready);
            members.see(rank, Some(card), beat * SECOND).unwrap();
        }
        assert_eq!(members.awaited(), awaited, "a card is not a sign of life");
    }
    assert_eq!(members.nonces(), [(1, 1), (2, 2), (3, 3), (4, 4)]);
    // One leaves, one begins its next run, one ends and falls silent, one falls silent.
    let left = Card { has_left: true, ..card(1, 3, State::Ended) };
    members.see(1, Some(left), 3 * SECOND).unwrap();
    let next = Card { meeting: 2, ..card(77, 0, State::Preparing) };
    members.see(2, Some(next), 3 * SECOND).unwrap();
    members.see(3, Some(card(3, 3, State::Ended)), 3 * SECOND).unwrap();
    assert_eq!((members.left(), members.present()), (vec![1, 2], vec![3, 4]));
    members.see(4, None, 22 * SECOND).unwrap();
    members.see(3, None, 24 * SECOND).unwrap();
    let told = members.see(4, Some(card(4, 2, State::Ready)), 23 * SECOND).unwrap_err();
    assert!(told.contains("rank 4") && told.contains("no sign of life for 21 s"), "{told}");
    assert_eq!((members.lost(), members.present()), (vec![3, 4], vec![]));
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
    let path = Scratch::new("garbage");
    let (mut one, mut other) = (board(&path, 0, 2), board(&path, 1, 2));
    one.put("word", b"short").unwrap();
    assert_eq!(other.get(0, "word").unwrap().as_deref(), Some(&b"short"[..]));
    let directories = std::fs::read_dir(&*path).unwrap().map(|entry| entry.unwrap().path());
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
}
