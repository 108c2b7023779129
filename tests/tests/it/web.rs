//! `neroman web` in a real browser: what a person sees and does on its pages.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Child;

use nero_tests::chromium::{Chromium, HeldKey};
use nero_tests::{Home, Part};
use serde_json::json;

use crate::story::added;

/// The server of the pages; dropping it ends it.
struct Web {
    child: Child,
    /// With the token.
    address: String,
}

impl Web {
    fn start(home: &Home, words: &[&str]) -> Self {
        let mut child = home.spawn(&[&["web"], words].concat());
        let mut address = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        output
            .read_line(&mut address)
            .expect("it tells its address");
        let address = address.trim().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        Self { child, address }
    }

    /// The address of a page.
    fn at(&self, page: &str) -> String {
        let (own, token) = self.address.split_once('#').expect("a token");
        let (own, _) = own.split_once('?').unwrap_or((own, ""));
        format!("{own}{page}#{token}")
    }

    /// Asserts that the page kept to itself and that each control has a name.
    #[track_caller]
    fn is_quiet(&self, browser: &mut Chromium) {
        assert_eq!(browser.unnamed(), [""; 0]);
        let own = self.at("");
        let (own, _) = own.split_once('#').expect("a token");
        assert_eq!(browser.complaints(own), [""; 0]);
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Types a text into the filter, in the place of what stands there.
fn filter(browser: &mut Chromium, text: &str) {
    // Escape empties it, wherever the cursor was.
    for key in ["/", "Escape", "/"] {
        browser.press(key, HeldKey::None);
    }
    browser.type_text(text);
}

/// Waits until the table has so many rows.
#[track_caller]
fn has_rows(browser: &mut Chromium, count: usize) {
    browser.until(&format!(
        "document.querySelector('table.rows').getAttribute('aria-rowcount') === '{}'",
        count + 1
    ));
}

/// Executes a line of the page once its dry run is shown.
#[track_caller]
fn does(browser: &mut Chromium, line: &str, dry_run: &str) {
    browser.until(&format!(
        "document.getElementById('line').value === {}",
        json!(line)
    ));
    browser.shows(dry_run);
    browser.press("Enter", HeldKey::None);
    browser.until("document.getElementById('line').value === ''");
}

#[test]
fn a_sweep_is_filtered_sorted_marked_restarted_watched_and_compared_in_the_browser() {
    let home = Home::new();
    let feed = home.path().join("feed");
    fs::write(&feed, "").unwrap();
    let rates: Vec<String> = (1..=50).map(|rate| rate.to_string()).collect();
    let yaml = format!(
        "collection: s
resources: {{cpus: 0.02}}
+a:
  command: sh -c 'for n in 1 2 3; do echo loss $((n * {{lr}})); done; exec sleep 1000'
  parameters: {{lr: [{}]}}
+live: {{command: tail -n +1 -f {}}}
",
        rates.join(", "),
        feed.display()
    );
    added(&home, "s", &yaml);
    let web = Web::start(&home, &[]);
    let mut browser = Chromium::start(&home);
    browser.open(&web.address);
    browser.shows("51 experiments");
    browser.until("!location.hash");
    // A mistake is told while the filter is typed, and what is whole is picked.
    filter(&mut browser, "lr > 45 &&");
    browser.shows("error: ");
    browser.type_text(" lr < 49");
    has_rows(&mut browser, 3);
    filter(&mut browser, "a_*");
    has_rows(&mut browser, 50);
    browser.press("Enter", HeldKey::None);
    // The largest first; the address keeps it.
    browser.click("th[data-column=lr] button", HeldKey::None);
    browser.until("document.querySelector('th[data-column=lr]').ariaSort === 'ascending'");
    browser.click("th[data-column=lr] button", HeldKey::None);
    browser.until("document.getElementById('row-0').innerText.includes('a_lr-50')");
    let address = browser.value("location.search");
    assert!(
        address.as_str().unwrap().contains("sel=a_*&sort=-param"),
        "{address}"
    );
    // A note in its place.
    browser.press(".", HeldKey::None);
    browser.press("Home", HeldKey::None);
    browser.press("n", HeldKey::None);
    browser.type_text("the <b>largest</b>");
    browser.press("Enter", HeldKey::None);
    browser.until("document.querySelector('#row-0 .note')?.innerText === 'the <b>largest</b>'");
    assert_eq!(home.experiment_json(50)["note"], "the <b>largest</b>");
    // All fifty, with two keys.
    browser.press(" ", HeldKey::None);
    browser.shows("1 marked");
    browser.press("End", HeldKey::Shift);
    browser.shows("50 marked");
    browser.press("r", HeldKey::None);
    does(&mut browser, "restart 1-50", "50");
    browser.shows("50 running");
    web.is_quiet(&mut browser);
    // A metric moves while one looks.
    filter(&mut browser, "");
    browser.press("Enter", HeldKey::None);
    browser.press(":", HeldKey::None);
    browser.type_text("start 51");
    does(&mut browser, "start 51", "would start");
    browser.shows("51 running");
    for value in ["0.25", "0.125"] {
        let mut feed = OpenOptions::new().append(true).open(&feed).unwrap();
        writeln!(feed, "loss {value}").unwrap();
        browser.until(&format!(
            "[...document.querySelectorAll('tbody tr')].some(row => row.innerText.includes('live') && row.innerText.includes('{value}'))"
        ));
    }
    // Four are compared, and ended.
    for key in [".", "Home", "u"] {
        browser.press(key, HeldKey::None);
    }
    for row in 0..4 {
        browser.click(&format!("#row-{row} td:nth-child(2)"), HeldKey::Control);
    }
    browser.shows("4 marked");
    browser.press("d", HeldKey::None);
    browser.until("document.querySelectorAll('.differs').length > 0");
    browser.until("document.querySelector('.figure img')?.complete");
    // A curve is read and zoomed with keys alone.
    browser.value("document.querySelector('.figure').focus()");
    browser.press("ArrowRight", HeldKey::None);
    browser.until("document.querySelector('.figure .read').innerText.startsWith('step')");
    browser.press("+", HeldKey::None);
    browser.shows("Whole range");
    web.is_quiet(&mut browser);
    browser.value("history.back()");
    browser.shows("4 marked");
    browser.press("a", HeldKey::None);
    does(&mut browser, "abort 47-50", "4");
    browser.shows("4 aborted");
    web.is_quiet(&mut browser);
    // The daemon is killed under the page, and started again by it.
    home.kill(Part::Daemon);
    browser.press("Escape", HeldKey::None);
    browser.press(":", HeldKey::None);
    browser.type_text("start 47");
    does(&mut browser, "start 47", "would start");
    browser.shows("3 aborted");
    web.is_quiet(&mut browser);
}

#[test]
fn each_page_is_told_to_a_reader_of_the_accessibility_tree_and_shows_hostile_texts_as_text() {
    let home = Home::new();
    let yaml = r#"
collection: h
+a:
  command: [sh, -c, 'printf "loss 1\n<script>taken()</script>\000\033[31m\342\200\256txt\n"; echo "<img src=x onerror=taken()>" >&2', '{p}']
  parameters:
    p: ['<script>taken()</script>', 'javascript:taken()', "\u202etxt", '日本語のテキスト', '"><img src=x>']
"#;
    added(&home, "h", yaml);
    home.ok(&["start", "all", "--wait"]);
    home.ok(&["note", "1", "<img src=/x onerror=taken()>"]);
    let web = Web::start(&home, &[]);
    let mut browser = Chromium::start(&home);
    let shows_text = |browser: &mut Chromium| {
        browser.shows("<script>taken()</script>");
        assert_eq!(browser.value("document.scripts.length"), 1);
        assert_eq!(
            browser.value("document.querySelectorAll('img[src=x], main script').length"),
            0
        );
    };
    browser.open(&web.address);
    shows_text(&mut browser);
    browser.shows("<img src=/x onerror=taken()>");
    browser.shows("日本語のテキスト");
    assert_eq!(
        browser.value("document.body.innerText.includes('\\u202e')"),
        false
    );
    web.is_quiet(&mut browser);
    browser.open(&web.at("?page=run&id=1"));
    browser.until("document.querySelector('.log')?.innerText.includes('taken()')");
    browser.until("document.querySelector('.figure img')?.complete");
    shows_text(&mut browser);
    browser.press("e", HeldKey::None);
    browser.until("document.querySelector('.log').innerText.includes('onerror=taken()')");
    web.is_quiet(&mut browser);
    browser.open(&web.at("?page=compare&sel=all"));
    browser.until("document.querySelectorAll('.differs').length > 0");
    shows_text(&mut browser);
    web.is_quiet(&mut browser);
    browser.open(&web.at("?page=nodes"));
    browser.shows("local");
    web.is_quiet(&mut browser);
}

#[test]
fn what_is_served_to_readers_changes_nothing() {
    let home = Home::new();
    added(&home, "s", "collection: s\n+a: {command: 'true'}\n");
    let web = Web::start(&home, &["--read-only"]);
    let mut browser = Chromium::start(&home);
    browser.open(&web.address);
    browser.shows("read-only");
    assert_eq!(
        browser.value("document.querySelector('#foot form').hidden"),
        true
    );
    web.is_quiet(&mut browser);
    let post = "fetch('/do', {method: 'POST', headers: {'X-Neroman': '1'}, body: JSON.stringify({words: ['start', 'all'], dry_run: false})}).then(one => one.status)";
    assert_eq!(browser.value(post), 403);
    assert_eq!(home.experiment_json(1)["state"], "defined");
}
