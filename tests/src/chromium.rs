//! A browser: Debian's `chromium` without a window, driven by the messages of its debugging protocol
//! over two pipes. What it complains of and asks of others is kept for the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::home::Home;
use crate::wait::until;

/// Switches: no window, nothing asked of the network by itself. Root has no sandbox of its own.
const SWITCHES: &str = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-quic \
    --no-first-run --disable-background-networking --disable-component-update --disable-sync \
    --hide-scrollbars --remote-debugging-pipe";

/// The numbers of Windows by which chromium goes, for keys that are no letters.
fn code(key: &str) -> u32 {
    match key {
        "Tab" => 9,
        "Enter" => 13,
        "Escape" => 27,
        " " => 32,
        "End" => 35,
        "Home" => 36,
        "ArrowUp" => 38,
        "ArrowDown" => 40,
        _ => 0,
    }
}

/// Roles of controls in the accessibility tree.
const CONTROLS: &str = "button checkbox combobox link listbox searchbox textbox ComboBoxSelect \
    DisclosureTriangle grid treegrid";

/// A key that is held.
#[derive(Clone, Copy, Debug)]
pub enum HeldKey {
    None = 0,
    Control = 2,
    Shift = 8,
}

/// A browser with one page; dropping it ends all its processes.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    count: u64,
    events: Vec<Value>,
}

impl Chromium {
    /// A browser whose files lie in the folder of this home.
    pub fn start(home: &Home) -> Self {
        let folder = home.path().join("browser");
        // The pipes of the protocol are the descriptors 3 and 4.
        let redirected = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut child = home
            .in_environment("sh")
            .args(["-c", redirected, "sh", "chromium"])
            .args(SWITCHES.split_whitespace())
            .arg(format!("--user-data-dir={}", folder.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut browser = Self {
            child,
            input,
            output,
            session: None,
            count: 0,
            events: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.size(1280, 800);
        browser
    }

    /// Sends a message and waits for its answer.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.count += 1;
        let mut message = json!({"id": self.count, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let sent = self.input.write_all(format!("{message}\0").as_bytes());
        sent.expect("chromium runs; is it installed?");
        loop {
            let mut answer = Vec::new();
            let read = self.output.read_until(0, &mut answer);
            read.expect("chromium answers");
            answer.pop();
            let answer: Result<Value, _> = serde_json::from_slice(&answer);
            let mut answer = answer.unwrap_or_else(|_| panic!("chromium ended at {message}"));
            if answer["id"] == self.count {
                assert!(answer["error"].is_null(), "{message}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    /// Width and height of the page in pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Whether the person likes dark pages, as the system tells.
    pub fn dark(&mut self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// Goes to an address.
    pub fn open(&mut self, address: &str) {
        let answer = self.call("Page.navigate", json!({"url": address}));
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
    }

    /// The value of an expression of JavaScript in the page; a promise is awaited.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", asked);
        let failure = &answer["exceptionDetails"];
        assert!(failure.is_null(), "{expression}: {failure}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        until(&format!("the page to have {expression}"), || {
            let tried = format!(
                "(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
            );
            if self.value(&tried) == true {
                return Ok(());
            }
            let text = self.value("document.body?.innerText");
            Err((text, self.complaints("")))
        });
    }

    /// Waits until the page shows these words.
    #[track_caller]
    pub fn shows(&mut self, words: &str) {
        let words = json!(words);
        self.until(&format!("document.body.innerText.includes({words})"));
    }

    /// Clicks on the first element of a selector of CSS.
    #[track_caller]
    pub fn click(&mut self, selector: &str, held: HeldKey) {
        let selector = json!(selector);
        self.until(&format!("document.querySelector({selector})"));
        let place = format!(
            "(() => {{ const one = document.querySelector({selector}); one.scrollIntoView({{block: 'nearest'}}); \
             const at = one.getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; }})()"
        );
        let place = self.value(&place);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1, "modifiers": held as u32});
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key: a letter, or the name of one.
    pub fn press(&mut self, key: &str, held: HeldKey) {
        let text = match (key, held) {
            ("Enter", _) => "\r",
            (key, HeldKey::None) if key.chars().count() == 1 => key,
            _ => "",
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code(key), "modifiers": held as u32});
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types a text where the cursor is.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// A picture of the page as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let text = picture["data"].as_str().expect("a picture");
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        bytes.expect("a picture is base64")
    }

    /// Errors of scripts, of the console and of the policy for content, and what was asked of other
    /// addresses than those that begin so.
    pub fn complaints(&self, own: &str) -> Vec<String> {
        let text = |event: &Value| -> Option<String> {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
                "Log.entryAdded" => Some(params["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let address = params["request"]["url"].as_str()?;
                    let is_elsewhere = !own.is_empty() && !address.starts_with(own);
                    is_elsewhere.then(|| format!("asked of another: {address}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(text).collect()
    }

    /// Controls of the accessibility tree that have no name.
    pub fn unnamed(&mut self) -> Vec<String> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().expect("nodes").iter();
        let is_unnamed = |node: &&Value| {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let name = node["name"]["value"].as_str().unwrap_or_default();
            let is_control = CONTROLS.split_whitespace().any(|control| control == role);
            node["ignored"] != true && is_control && name.trim().is_empty()
        };
        nodes.filter(is_unnamed).map(Value::to_string).collect()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
