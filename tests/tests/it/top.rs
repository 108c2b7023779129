//! `neroman top` in a real terminal: what a person sees and does in tmux.

use std::fs;
use std::process::Command;

use nero_tests::{Home, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::story::added;

/// How the view ends.
enum Ending {
    Key(&'static str),
    Signal(Signal),
}

/// A terminal of tmux with a shell, which starts the view.
pub struct Tmux<'a> {
    home: &'a Home,
    socket: String,
}

impl<'a> Tmux<'a> {
    pub fn new(home: &'a Home, size: (u16, u16)) -> Self {
        let socket = home.base().join("tmux").display().to_string();
        let tmux = Self { home, socket };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let status = tmux
            .home
            .in_environment("tmux")
            .args(["-f", "/dev/null", "-u", "-S", &tmux.socket])
            .args(["new-session", "-d", "-x", &width, "-y", &height])
            .args(["env", "LC_ALL=C.UTF-8", "PS1=shell> ", "sh"])
            .status();
        assert!(status.unwrap().success(), "tmux starts");
        tmux
    }

    pub fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .args(["-S", &self.socket])
            .args(words)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }

    pub fn press(&self, keys: &[&str]) {
        self.ask(&[&["send-keys"], keys].concat());
    }

    /// Waits until the screen contains all these words.
    #[track_caller]
    pub fn shows(&self, words: &[&str]) -> String {
        until(&format!("the screen to show {words:?}"), || {
            let screen = self.ask(&["capture-pane", "-p"]);
            if words.iter().all(|word| screen.contains(word)) {
                Ok(screen)
            } else {
                Err(screen)
            }
        })
    }

    /// Starts the view.
    fn start(&self, words: &str) {
        let program = self.home.neroman().display().to_string();
        self.press(&[&format!("{program} top {words}"), "Enter"]);
    }

    /// Whether the alternate screen is shown, and the cursor, and who has the terminal: `1 0 neroman`.
    fn terminal(&self) -> String {
        let format = "#{alternate_on} #{cursor_flag} #{pane_current_command}";
        self.ask(&["display-message", "-p", format])
            .trim()
            .to_owned()
    }

    /// The process of the view: the child of the shell.
    pub fn view(&self) -> Pid {
        let shell = self.ask(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let children = children.unwrap();
        let pid = children
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        Pid::from_raw(pid.expect("the view runs")).unwrap()
    }

    #[track_caller]
    fn is_restored(&self) {
        until("the terminal to be as before", || {
            match self.terminal().as_str() {
                "0 1 sh" => Ok(()),
                other => Err(other.to_owned()),
            }
        });
        self.press(&[
            "stty -a | tr ' ;' '\\n\\n' | grep -cx -- 'icanon\\|echo\\|isig'",
            "Enter",
        ]);
        self.shows(&["\n3\n"]);
        self.press(&["clear", "Enter"]);
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

#[test]
fn a_sweep_is_watched_marked_aborted_and_restarted_in_the_view() {
    let home = Home::new();
    let yaml = "collection: s
command: sh -c 'echo loss {lr}; exec sleep 1000'
resources: {cpus: 0.1}
+a: {parameters: {lr: [1, 2, 3]}}
";
    added(&home, "s", yaml);
    let tmux = Tmux::new(&home, (80, 24));
    tmux.start("");
    tmux.shows(&["3 experiments, 0 live", "○ defined", "a_lr-3"]);
    // A line of the view starts them, and the rows follow.
    tmux.press(&[":", "start all", "Enter"]);
    tmux.shows(&["started 3", "Esc goes back"]);
    tmux.press(&["Escape"]);
    tmux.shows(&["3 experiments, 3 live", "▶ running", "0 of 3 done"]);
    tmux.press(&["3"]);
    tmux.shows(&["loss", "┤"]);
    tmux.press(&["2"]);
    tmux.shows(&["stdout", "loss 1"]);
    tmux.press(&["Space", "Space", "a"]);
    tmux.shows(&["neroman abort 1,2", "would abort 2"]);
    tmux.press(&["Enter"]);
    tmux.shows(&["1 live", "■ aborted"]);
    // Only what is picked is left, while it is typed.
    tmux.press(&["u", "/", "running"]);
    tmux.shows(&["1 experiment, 1 live", "of running"]);
    tmux.press(&["Enter", "@"]);
    tmux.shows(&["neroman abort 1,2", "neroman start all"]);
    // The daemon is killed under it, and started again by it.
    tmux.press(&["Escape"]);
    home.kill(nero_tests::Part::Daemon);
    tmux.press(&[":", "abort all --yes", "Enter"]);
    tmux.shows(&["nothing is picked"]);
    tmux.press(&["q"]);
    tmux.is_restored();
}

#[test]
fn the_terminal_is_as_before_however_the_view_ends() {
    let home = Home::new();
    added(&home, "s", "collection: s\n+a: {command: 'true'}\n");
    let tmux = Tmux::new(&home, (100, 30));
    let keys = [Ending::Key("q"), Ending::Key("C-c")];
    let signals = [Signal::TERM, Signal::HUP, Signal::INT].map(Ending::Signal);
    for ending in keys.into_iter().chain(signals) {
        tmux.start("1");
        tmux.shows(&["1 experiment, 0 live"]);
        assert_eq!(tmux.terminal(), "1 0 neroman");
        match ending {
            Ending::Key(key) => tmux.press(&[key]),
            Ending::Signal(signal) => kill_process(tmux.view(), signal).unwrap(),
        }
        tmux.is_restored();
    }
    // To the shell, and back.
    tmux.start("1");
    tmux.shows(&["1 experiment, 0 live"]);
    tmux.press(&["C-z"]);
    tmux.is_restored();
    tmux.press(&["fg", "Enter"]);
    tmux.shows(&["1 experiment, 0 live", "? help"]);
    assert_eq!(tmux.terminal(), "1 0 neroman");
    tmux.press(&["q"]);
    tmux.is_restored();
}
