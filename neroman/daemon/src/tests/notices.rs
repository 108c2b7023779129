//! Notices reach people once, whatever is folded again and whenever the daemon ends.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nero_journal::v1::{self as journal, RecordKind};
use nero_wire::v1;
use serde_json::Value;

use super::nodes::{BOTH, connect, lose, regain, running_on, start_on};
use super::stories::TWO;
use super::{DEADLINE, Rig};
use nero_home::clock::Clock;
use nero_home::ledger::Audience;

/// A program that is told of events, as `notify.command` names it.
struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    /// One that writes each event down.
    fn new() -> Self {
        Self::that(
            "cat > \"$DIR/part\" && cat \"$DIR/part\" >> \"$DIR/told\" && echo >> \"$DIR/told\"",
        )
    }

    fn that(does: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tell");
        let text = format!("#!/bin/sh\nDIR={}\n{does}\n", folder.path().display());
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration that names it, for all events.
    fn config(&self) -> String {
        format!(
            "notify:\n  events: [started, finished, crashed, aborted, timeout, lost, warning, stalled, node, done]\n  command: [{}]\n",
            self.path("tell").display()
        )
    }

    /// What it was told, in order.
    fn told(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("told")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The words of the events that it was told, once they are so many.
    async fn events(&self, rig: &Rig, count: usize) -> Vec<String> {
        until(rig, &format!("{count} events"), || {
            self.told().len() >= count
        })
        .await;
        let word = |line: String| {
            let event: Value = serde_json::from_str(&line).unwrap();
            event["event"].as_str().unwrap().to_owned()
        };
        self.told().into_iter().map(word).collect()
    }
}

/// Waits until something is so; every outcome of sending changes the state.
async fn until(rig: &Rig, what: &str, so: impl Fn() -> bool) {
    let mut states = rig.man.ledger.watch(Audience::Everyone);
    let waiting = async {
        loop {
            states.mark_unchanged();
            if so() {
                return;
            }
            // A program writes before its end is recorded, and may do so without a change.
            let _ = tokio::time::timeout(Duration::from_millis(50), states.changed()).await;
        }
    };
    let done = tokio::time::timeout(DEADLINE, waiting).await;
    assert!(done.is_ok(), "never: {what}");
}

/// Waits until nothing is left to tell.
async fn until_quiet(rig: &Rig) {
    let ledger = rig.man.ledger.clone();
    let quiet = || {
        let state = ledger.state();
        let mut deliveries = state.post.deliveries.values();
        state.post.notices.is_empty() && deliveries.all(|one| one.state.is_over())
    };
    until(rig, "all is told", quiet).await;
}

async fn begun(program: &Program) -> (Rig, Vec<u8>) {
    let rig = Rig::configured(&program.config());
    rig.write(TWO);
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    (rig, token)
}

fn crashes(rig: &Rig, token: &[u8]) {
    let exited = journal::JobExited {
        code: 3,
        ..journal::JobExited::default()
    };
    rig.mum.record(token, RecordKind::JobExited, &exited);
    rig.mum
        .record(token, RecordKind::TreeGone, &journal::TreeGone::default());
}

#[tokio::test]
async fn start_warning_and_end_are_told_once_and_not_again_by_the_next_daemon() {
    let program = Program::new();
    let (rig, token) = begun(&program).await;
    let fired = journal::RuleFired {
        rule: 1,
        action: "warn".to_owned(),
        text: "loss > 5".to_owned(),
        values: "loss = 6".to_owned(),
        times: 1,
        ..journal::RuleFired::default()
    };
    for times in 1..=2 {
        let fired = journal::RuleFired {
            times,
            ..fired.clone()
        };
        rig.mum.record(&token, RecordKind::RuleFired, &fired);
    }
    crashes(&rig, &token);
    rig.state(1, "crashed").await;
    let events = program.events(&rig, 4).await;
    assert_eq!(events, ["started", "warning", "warning", "crashed"]);
    until_quiet(&rig).await;
    let rig = rig.restart().await;
    rig.start("2").await;
    let token = rig.mum.token(2, 1).await;
    rig.mum.begin(&token);
    let events = program.events(&rig, 5).await;
    assert_eq!(events[4], "started");
    until_quiet(&rig).await;
    assert_eq!(program.told().len(), 5);
    rig.stop().await;
}

#[tokio::test]
async fn a_run_that_is_folded_anew_is_not_told_again() {
    let program = Program::new();
    let (rig, token) = begun(&program).await;
    program.events(&rig, 1).await;
    rig.mum.misreport(&token);
    let remark = journal::Notice::of("heard");
    rig.mum.record(&token, RecordKind::Notice, &remark);
    rig.until(1, "read on", |view| {
        view.warnings.iter().any(|warning| warning == "heard")
    })
    .await;
    crashes(&rig, &token);
    rig.mum.misreport(&token);
    rig.state(1, "crashed").await;
    let rig = rig.restart().await;
    let events = program.events(&rig, 3).await;
    assert_eq!(events, ["started", "warning", "crashed"]);
    until_quiet(&rig).await;
    assert_eq!(program.told().len(), 3);
    rig.stop().await;
}

#[tokio::test]
async fn a_daemon_that_ends_while_it_tells_tells_the_same_once_more() {
    // It writes the event down, and ends only where it was allowed to before that.
    let program = Program::that(
        "go=; [ ! -e \"$DIR/go\" ] || go=yes\n\
         cat > \"$DIR/part.$$\"; cat \"$DIR/part.$$\" >> \"$DIR/told\"; echo >> \"$DIR/told\"\n\
         [ -n \"$go\" ] || exec sleep 600",
    );
    let (rig, _) = begun(&program).await;
    program.events(&rig, 1).await;
    std::fs::write(program.path("go"), "").unwrap();
    let rig = rig.restart().await;
    program.events(&rig, 2).await;
    until_quiet(&rig).await;
    let told = program.told();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], told[1], "the same bytes");
    let rig = rig.restart().await;
    until_quiet(&rig).await;
    assert_eq!(program.told().len(), 2, "it is known as told");
    rig.stop().await;
}

#[tokio::test]
async fn a_program_that_cannot_be_told_now_is_told_later_at_a_persons_wish() {
    let program =
        Program::that("[ -e \"$DIR/go\" ] || exit 75\ncat >> \"$DIR/told\"; echo >> \"$DIR/told\"");
    let (rig, _) = begun(&program).await;
    let ledger = rig.man.ledger.clone();
    let tried = || {
        let state = ledger.state();
        state.post.deliveries.values().any(|one| one.tries > 0)
    };
    until(&rig, "it is tried", tried).await;
    let request = nero_wire::v1::ListRequest::default();
    let notes = rig.man.list(request).await.unwrap().notes;
    assert!(
        notes
            .iter()
            .any(|note| note.starts_with("command: 1 waits, next try ")),
        "{notes:?}"
    );
    std::fs::write(program.path("go"), "").unwrap();
    let retry = nero_wire::v1::MailRetryRequest::default();
    assert_eq!(rig.man.mail_retry(retry).await.unwrap().deliveries, 1);
    assert_eq!(program.events(&rig, 1).await, ["started"]);
    until_quiet(&rig).await;
    let list = rig.man.mail_list();
    let one = list.deliveries.last().unwrap();
    assert_eq!(
        (&*one.state, &*one.subject, one.tries),
        ("sent", "started 1.1", 2)
    );
    rig.stop().await;
}

#[tokio::test]
async fn nothing_is_noticed_where_nobody_is_told() {
    let rig = Rig::new();
    rig.write(TWO);
    rig.add().await;
    rig.start("1").await;
    let token = rig.mum.token(1, 1).await;
    rig.mum.begin(&token);
    rig.state(1, "running").await;
    let state = rig.man.ledger.state();
    assert_eq!((state.post.next_notice(), state.post.revision), (1, 1));
    // Who is named from now on is told of what happens from now on.
    let program = Program::new();
    std::fs::write(&rig.home.config, program.config()).unwrap();
    crashes(&rig, &token);
    rig.state(1, "crashed").await;
    assert_eq!(program.events(&rig, 1).await, ["crashed"]);
    until_quiet(&rig).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_node_that_is_away_for_ten_minutes_and_back_is_told_once_each() {
    let program = Program::new();
    let clock = Clock::stepped(0);
    let rig = Rig::configured_at(clock, &format!("{BOTH}{}", program.config()));
    rig.write(TWO);
    rig.add().await;
    running_on(&rig, "alpha").await;
    program.events(&rig, 1).await;
    // A node that is back before is nobody's business.
    lose(&rig, "alpha").await;
    clock.pass(9 * 60_000);
    rig.add().await;
    regain(&rig, "alpha").await;
    until_quiet(&rig).await;
    assert_eq!(program.told().len(), 1, "{:?}", program.told());
    lose(&rig, "alpha").await;
    clock.pass(11 * 60_000);
    // The clock is looked at when something changes.
    connect(&rig, "beta").await;
    assert_eq!(program.events(&rig, 2).await[1], "node_away");
    until_quiet(&rig).await;
    // The next daemon knows that it was told.
    let (base, fakes) = rig.stop().await;
    let rig = Rig::at(clock, base, fakes);
    lose(&rig, "alpha").await;
    clock.pass(11 * 60_000);
    connect(&rig, "beta").await;
    regain(&rig, "alpha").await;
    assert_eq!(program.events(&rig, 3).await[2], "node_back");
    until_quiet(&rig).await;
    let told = program.told();
    assert_eq!(told.len(), 3, "{told:?}");
    let back: Value = serde_json::from_str(&told[2]).unwrap();
    assert_eq!(back["node"], "alpha", "{back}");
    rig.stop().await;
}

#[tokio::test]
async fn what_a_node_told_while_we_were_away_is_mailed_by_nobody_else() {
    let letters = Program::that("cat >> \"$DIR/told\"");
    let config = format!(
        "{BOTH}mail: {{sendmail: {}, from: me@a.org, relay: alpha}}\nnotify: {{to: [ada@a.org], events: [crashed]}}\n",
        letters.path("tell").display()
    );
    let rig = Rig::configured(&config);
    rig.write(TWO);
    rig.add().await;
    let told = running_on(&rig, "alpha").await;
    start_on(&rig, "2", "alpha").await.unwrap();
    let alpha = rig.node("alpha");
    let untold = alpha.token(2, 1).await;
    alpha.begin(&untold);
    rig.state(2, "running").await;
    let both = [told.clone(), untold.clone()];
    let asks = |order: &v1::RelayOrder| {
        let all = both.iter().all(|token| order.tokens.contains(token));
        all && order.to == ["ada@a.org"] && order.events == ["crashed"]
    };
    alpha.ordered("an order for both", asks).await;
    lose(&rig, "alpha").await;
    let id = vec![7; 16];
    alpha.tells(v1::RelayClaim {
        id: id.clone(),
        from: "me@a.org".to_owned(),
        to: "ada@a.org".to_owned(),
        subject: "1 run ended on alpha".to_owned(),
        message_id: "<7@a.org>".to_owned(),
        tokens: vec![told.clone()],
        ..v1::RelayClaim::default()
    });
    let exited = journal::JobExited {
        code: 3,
        ..journal::JobExited::default()
    };
    for token in &both {
        alpha.record(token, RecordKind::JobExited, &exited);
        alpha.record(token, RecordKind::TreeGone, &journal::TreeGone::default());
    }
    regain(&rig, "alpha").await;
    rig.state(1, "crashed").await;
    rig.state(2, "crashed").await;
    let has_both = || rig.man.ledger.state().post.deliveries.len() >= 2;
    until(&rig, "the letters are listed", has_both).await;
    until_quiet(&rig).await;
    let list = rig.man.mail_list();
    let sent: Vec<_> = list
        .deliveries
        .iter()
        .map(|one| (&*one.state, &*one.subject))
        .collect();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0], ("sent", "1 run ended on alpha"));
    let mails = letters.told().join("\n");
    assert_eq!(mails.matches("Message-ID:").count(), 1, "{mails}");
    assert!(mails.contains("2.1") && !mails.contains("1.1 "), "{mails}");
    // The claim lies here now, and goes there; nobody is asked about what has ended.
    let is_over = |order: &v1::RelayOrder| order.tokens.is_empty();
    alpha.ordered("an order for nobody", is_over).await;
    alpha.until_claimed_nothing().await;
    rig.stop().await;
}
