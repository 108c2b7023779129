//! The pictures of `docs/views.md`, of a real sweep: pages of `neroman web` as PNG, screens of
//! `neroman top` as SVG. `cargo xtask pictures` builds everything and runs this program.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use nero_tests::{Chromium, Home, until};
use serde_json::Value;

/// Bytes of a picture.
const BYTES_MAX: usize = 60_000;
/// Points of the runs that go on while the pictures are made.
const POINTS_MIN: u64 = 60;
/// A page has its rows, its curves, its log and its baseline, and heard of the daemon.
const THERE: &str = "document.querySelector('tbody td, .meter') && document.querySelector('#online .good') && \
    [...document.querySelectorAll('.figure')].every(one => one.querySelector('img')) && \
    [...document.querySelectorAll('.log')].every(one => one.innerText.includes('epoch')) && \
    (!location.search.includes('base=') || document.querySelector('.baseline, .compared'))";
/// Width and height of a terminal's cell.
const CELL: (usize, usize) = (8, 17);

const SWEEP: &str = "collection: penguins
outputs: [stdout, model.json]
resources: {cpus: 0.5, memory: 256M, time: 9h}
rules:
  - abort: loss > 20
  - warn: test_error > 0.2 after 3s
+train:
  command: python3 train.py {rate} {hidden} 60 data/penguins.csv
  parameters: {rate: [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1], hidden: [4, 8, 16]}
  progress: epoch / 60
+uncleaned:
  command: python3 train.py {rate} {hidden} 60 data/penguins.csv --keep-missing
  parameters: {rate: [0.01, 0.1], hidden: 4}
+diverges:
  command: python3 train.py {rate} {hidden} 60 data/penguins.csv
  parameters: {rate: 300, hidden: 16}
+long:
  command: python3 train.py {rate} {hidden} 20000 data/penguins.csv
  parameters: {rate: [0.001, 0.003, 0.01], hidden: [8, 16, 32]}
  progress: epoch / 20000
";

fn main() {
    let out = std::env::args().nth(1).expect("the folder of the pictures");
    let (out, home) = (Path::new(&out), Home::new());
    fs::create_dir_all(out).expect("a folder");
    sweep(&home);
    screens(&home, out);
    pages(&home, out);
}

/// Runs the sweep until some of it is done, some goes on and some waits.
fn sweep(home: &Home) {
    let folder = home.experiment("penguins", SWEEP);
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/penguins");
    for name in ["train.py", "data/penguins.csv"] {
        let to = folder.join(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from.join(name), to).expect("an example");
    }
    home.ok(&["add", &folder.display().to_string()]);
    home.ok(&["start", "1-21"]);
    // Two crash and one is ended by its rule, so that this is 1.
    home.run(&["wait", "1-21"]);
    home.ok(&["note", "16", "best so far: a seed more?"]);
    home.ok(&["tag", "13-18", "+paper"]);
    home.ok(&["start", "22-30"]);
    until("the long runs to have some points", || {
        let runs = home.json(&["status", "running"]);
        let runs = runs["experiments"].as_array().expect("a list").clone();
        let count = |run: &Value| run["metrics"]["loss"]["count"].as_u64().unwrap_or(0);
        if runs.len() > 1 && runs.iter().all(|run| count(run) > POINTS_MIN) {
            return Ok(());
        }
        Err(runs.iter().map(count).collect::<Vec<u64>>())
    });
}

/// The four pages, light and dark, and that of runs on a telephone.
fn pages(home: &Home, out: &Path) {
    let mut web = home.spawn(&["web"]);
    let mut address = String::new();
    let mut output = BufReader::new(web.stdout.take().expect("piped"));
    output.read_line(&mut address).expect("an address");
    let (own, token) = address.trim().split_once('#').expect("a token");
    let mut browser = Chromium::start(home);
    let all = [
        (
            "runs",
            760,
            "?sort=metric%28%27loss%27%29&marks=16-18&base=4",
        ),
        ("run", 1080, "?page=run&id=6"),
        ("compare", 1080, "?page=compare&sel=3,6,9,12&base=3"),
        ("nodes", 480, "?page=nodes"),
    ];
    for (is_dark, look) in [(false, "light"), (true, "dark")] {
        browser.dark(is_dark);
        for (name, height, words) in all {
            browser.size(1120, height);
            browser.open(&format!("{own}{words}#{token}"));
            browser.until(THERE);
            let name = format!("web-{name}-{look}.png");
            write(out, &name, &small(&browser.picture()));
        }
    }
    browser.dark(false);
    browser.size(380, 760);
    browser.open(&format!("{own}#{token}"));
    browser.until(THERE);
    write(out, "web-runs-narrow.png", &small(&browser.picture()));
    drop(browser);
    web.kill().expect("a child");
    web.wait().expect("a child");
}

fn write(out: &Path, name: &str, bytes: &[u8]) {
    assert!(bytes.len() <= BYTES_MAX, "{name} has {} bytes", bytes.len());
    println!("{:6} {name}", bytes.len());
    let path = out.join(name);
    if name.ends_with(".svg") {
        let (old, new) = (fs::read(&path).unwrap_or_default(), words(bytes));
        let old = words(&old);
        for (what, words) in [("new", &new - &old), ("not there any more", &old - &new)] {
            if !words.is_empty() {
                let words = words.into_iter().collect::<Vec<_>>().join(" ");
                println!("       {what}: {words}");
            }
        }
    }
    fs::write(path, bytes).expect("a file");
}

/// The words of a drawing: headings of columns, states, keys. Numbers and times are none.
fn words(svg: &[u8]) -> BTreeSet<String> {
    let svg = String::from_utf8_lossy(svg);
    let texts = svg.split('<').filter_map(|tag| tag.split_once('>'));
    let words = texts.flat_map(|(_, text)| text.split(|sign: char| !sign.is_alphabetic()));
    let words = words.filter(|word| word.len() > 1);
    words.map(str::to_owned).collect()
}

/// The same picture with a palette of its commonest colours.
fn small(picture: &[u8]) -> Vec<u8> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(picture))
        .read_info()
        .expect("a picture");
    let mut bytes = vec![0; reader.output_buffer_size().expect("it fits")];
    let info = reader.next_frame(&mut bytes).expect("a picture");
    let pixels: Vec<[u8; 3]> = bytes[..info.buffer_size()]
        .chunks(info.color_type.samples())
        .map(|pixel| [pixel[0], pixel[1], pixel[2]])
        .collect();
    let mut counts: HashMap<[u8; 3], usize> = HashMap::new();
    for pixel in &pixels {
        *counts.entry(*pixel).or_default() += 1;
    }
    let mut colors: Vec<[u8; 3]> = counts.keys().copied().collect();
    colors.sort_by_key(|color| (std::cmp::Reverse(counts[color]), *color));
    let palette = &colors[..colors.len().min(256)];
    let distance = |one: &[u8; 3], other: &[u8; 3]| -> u32 {
        (0..3)
            .map(|part| u32::from(one[part].abs_diff(other[part])).pow(2))
            .sum()
    };
    let nearest = |color: &[u8; 3]| {
        let places = palette.iter().enumerate();
        let place = places.min_by_key(|(_, known)| distance(color, known));
        place.map_or(0, |(at, _)| u8::try_from(at).unwrap_or(0))
    };
    let places: HashMap<[u8; 3], u8> = colors
        .iter()
        .map(|color| (*color, nearest(color)))
        .collect();
    let mut packed = Vec::new();
    let mut encoder = png::Encoder::new(&mut packed, info.width, info.height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette.concat());
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    let indexed: Vec<u8> = pixels.iter().map(|pixel| places[pixel]).collect();
    let mut writer = encoder.write_header().expect("a header");
    writer.write_image_data(&indexed).expect("a picture");
    drop(writer);
    packed
}

/// `top` in a terminal, in two sizes, and `status --watch`, light and dark.
fn screens(home: &Home, out: &Path) {
    let many = ["Space", "Space", "Space", "Space", "Space", "Space", "3"];
    for (name, size, keys) in [
        ("top-80x24.svg", (80, 24), &["Down", "3"][..]),
        ("top-200x60.svg", (200, 60), &many[..]),
    ] {
        let terminal = Terminal::start(home, size, "top");
        terminal.shows("30 experiments");
        for key in keys {
            terminal.tmux(&["send-keys", key]);
        }
        terminal.shows("┤");
        write(
            out,
            name,
            drawing(&terminal.frame(), size, &DARK).as_bytes(),
        );
    }
    let size = (112, 17);
    let terminal = Terminal::start(home, size, "status --watch");
    for words in ["needs you", "waits for CPUs", "runtime"] {
        terminal.shows(words);
    }
    let frame = terminal.frame();
    for (name, look) in [("watch-light.svg", &LIGHT), ("watch-dark.svg", &DARK)] {
        let drawing = drawing(&frame, size, look);
        assert!(
            drawing.len() <= 40_000,
            "{name} has {} bytes",
            drawing.len()
        );
        write(out, name, drawing.as_bytes());
    }
}

/// neroman in a terminal of tmux.
struct Terminal<'a> {
    home: &'a Home,
    socket: String,
}

impl<'a> Terminal<'a> {
    /// Executes a line of neroman in so many columns and lines.
    fn start(home: &'a Home, (columns, lines): (usize, usize), line: &str) -> Self {
        let socket = home.base().join(format!("tmux{columns}"));
        let terminal = Self {
            home,
            socket: socket.display().to_string(),
        };
        let program = format!(
            "LC_ALL=C.UTF-8 TERM=tmux-256color {} {line}",
            home.neroman().display()
        );
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let size = ["-x", &columns, "-y", &lines];
        terminal.tmux(&[&["new-session", "-d"], &size[..], &["sh", "-c", &program]].concat());
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = self
            .home
            .in_environment("tmux")
            .args(["-f", "/dev/null", "-u", "-S", &self.socket])
            .args(words)
            .output();
        String::from_utf8(output.expect("tmux is installed").stdout).expect("UTF-8")
    }

    /// Waits until the screen shows these words.
    fn shows(&self, words: &str) {
        until(&format!("the screen to show {words}"), || {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(words) {
                Ok(())
            } else {
                Err(screen)
            }
        });
    }

    /// What stands on the screen, with its colours; ends the terminal.
    fn frame(&self) -> String {
        let frame = self.tmux(&["capture-pane", "-e", "-p"]);
        self.tmux(&["kill-server"]);
        frame
    }
}

/// The sixteen colours of a terminal: its ground is the first, its text the eighth.
type Palette = [&'static str; 16];

const DARK: Palette = [
    "#16181c", "#ff8a80", "#4fd6a5", "#f0bf4c", "#6cb8f0", "#e5a3cb", "#5ad4e6", "#e3e6ea",
    "#98a1ad", "#ff8a80", "#4fd6a5", "#f0bf4c", "#6cb8f0", "#e5a3cb", "#5ad4e6", "#ffffff",
];
const LIGHT: Palette = [
    "#fbfbfc", "#b3261e", "#0b7a4b", "#8a5a00", "#0b62a8", "#96306d", "#0b6f80", "#1d2126",
    "#626b76", "#b3261e", "#0b7a4b", "#8a5a00", "#0b62a8", "#96306d", "#0b6f80", "#000000",
];

/// One of the 256 colours of a terminal, which `38;5;N` names: behind the sixteen a cube, then greys.
fn of_palette(at: usize, look: &Palette) -> String {
    let level = |step: usize| if step == 0 { 0 } else { 55 + 40 * step };
    let [red, green, blue] = match at {
        0..16 => return look[at].to_owned(),
        16..232 => [(at - 16) / 36, (at - 16) / 6 % 6, (at - 16) % 6].map(level),
        _ => [8 + 10 * (at - 232); 3],
    };
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A frame of a terminal as SVG: each piece of text in its cells, whatever the fonts are.
fn drawing(frame: &str, (width, height): (usize, usize), look: &Palette) -> String {
    let (ground, text_color) = (look[0], look[7]);
    let (wide, high) = (width * CELL.0 + 16, height * CELL.1 + 16);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" \
         font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\">\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{ground}\"/>\n"
    );
    let (mut color, mut bold, mut is_reversed) = (text_color.to_owned(), "", false);
    for (y, line) in frame.lines().enumerate() {
        let mut x = 0;
        for (at, part) in line.split("\u{1b}[").enumerate() {
            let (codes, text) = part
                .split_once('m')
                .filter(|_| at > 0)
                .unwrap_or(("", part));
            let mut codes = codes.split(';').map(|code| code.parse().unwrap_or(0));
            while let Some(code) = codes.next().filter(|_| at > 0) {
                match code {
                    0 => (color, bold, is_reversed) = (text_color.to_owned(), "", false),
                    1 => bold = " font-weight=\"bold\"",
                    7 => is_reversed = true,
                    39 => color = text_color.to_owned(),
                    30..=37 => color = look[code - 30].to_owned(),
                    90..=97 => color = look[code - 82].to_owned(),
                    38 => color = of_palette(codes.nth(1).unwrap_or(7), look),
                    _ => {}
                }
            }
            let cells = text.chars().count();
            let (left, top, wide) = (x * CELL.0 + 8, y * CELL.1 + 8, cells * CELL.0);
            x += cells;
            if is_reversed {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left}\" y=\"{top}\" width=\"{wide}\" height=\"{}\" fill=\"{color}\"/>",
                    CELL.1
                );
            }
            if text.trim().is_empty() {
                continue;
            }
            let (fill, base) = (if is_reversed { ground } else { &color }, top + 13);
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                svg,
                "<text x=\"{left}\" y=\"{base}\" textLength=\"{wide}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" fill=\"{fill}\"{bold}>{text}</text>"
            );
        }
    }
    svg + "</svg>\n"
}
