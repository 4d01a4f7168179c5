//! A terminal for the program, and what one that obeys its escape sequences shows.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Both ends of a terminal, which has no size before it is given one.
pub struct Terminal {
    master: File,
    /// Bytes that have been read so far.
    shown: Vec<u8>,
    /// The end that a program writes to.
    pub end: OwnedFd,
}

impl Terminal {
    pub fn open() -> Terminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let end = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        Terminal { master: File::from(master), shown: Vec::new(), end }
    }

    pub fn resize(&self, ws_row: u16, ws_col: u16) {
        let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.end, size).unwrap();
    }

    /// Starts it with its output on the terminal.
    pub fn start(&self, mut command: Command) -> Child {
        let end = || self.end.try_clone().unwrap();
        command.stdout(end()).stderr(end()).spawn().unwrap()
    }

    /// Waits until it shows that text, after all that was read before.
    pub fn read_until(&mut self, text: &str) {
        let begin = self.shown.len();
        while !String::from_utf8_lossy(&self.shown[begin..]).contains(text) {
            let is_read = read_some(&mut self.master, &mut self.shown);
            assert!(is_read, "{}", String::from_utf8_lossy(&self.shown));
        }
    }

    /// All that was shown, once nobody can write to it any more.
    pub fn read_to_end(self) -> String {
        let Terminal { mut master, mut shown, end } = self;
        drop(end);
        while read_some(&mut master, &mut shown) {}
        // The terminal itself begins each line in the first column.
        String::from_utf8(shown).unwrap().replace("\r\n", "\n")
    }
}

/// Reads some more; when the last of the terminal's ends is closed, that fails.
fn read_some(master: &mut File, shown: &mut Vec<u8>) -> bool {
    let mut piece = [0; 4096];
    let length = master.read(&mut piece).unwrap_or(0);
    shown.extend_from_slice(&piece[..length]);
    length > 0
}

/// Lines that a terminal shows which has been written that text, those that it has scrolled away
/// included. Colours are left out.
pub fn page(text: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => (row, column) = (row + 1, 0),
            '\x1b' => {
                assert_eq!(rest.next(), Some('['), "{text:?}");
                let count: String =
                    rest.by_ref().take_while(|c| c.is_ascii_digit() || *c == ';').collect();
                // That took the letter behind it, too.
                let end = text[..text.len() - rest.as_str().len()].chars().next_back();
                match end {
                    Some('A') => row -= count.parse::<usize>().unwrap(),
                    Some('K') => lines[row].truncate(column),
                    Some('J') => {
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    Some('m') => {}
                    other => panic!("{other:?} in {text:?}"),
                }
            }
            c => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
        lines.resize_with(lines.len().max(row + 1), Vec::new);
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}
