//! When notices become letters, and what becomes of deliveries.

use std::collections::BTreeMap;
use std::sync::Arc;

use nero_life::change::Change;
use nero_life::notices::{
    Delivery, DeliveryState, DeliveryWay, Notice, NoticeKind, PostChange, SendResult,
};
use nero_life::state::State;
use nero_model::{ExperimentId, Phase, RunId};
use proptest::prelude::*;

use super::{MailPlan, MailSettings, NoticeContext, PlanTime, plan};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
/// Noon of the first day.
const NOON_MS: i64 = 12 * HOUR_MS;

fn settings() -> MailSettings {
    MailSettings {
        has_mail: true,
        letters_per_hour: 20,
        ..MailSettings::default()
    }
}

/// A post office, its clock, and what it sent.
struct Office {
    state: State,
    settings: MailSettings,
    now_ms: i64,
    ready: bool,
    /// Time and notices of each letter.
    letters: Vec<(i64, Vec<u64>)>,
    live_since_ms: Option<i64>,
    same_digest_ms: Option<i64>,
    /// Whether what happens is the end of a start.
    ends_start: bool,
}

impl Office {
    fn new(settings: MailSettings) -> Self {
        Self {
            state: State::default(),
            settings,
            now_ms: NOON_MS,
            ready: true,
            letters: Vec::new(),
            live_since_ms: None,
            same_digest_ms: None,
            ends_start: false,
        }
    }

    /// Something happened now to a run of this collection.
    fn happens(&mut self, collection: u64) {
        self.happened(collection, self.now_ms);
    }

    /// Something is heard now that happened before.
    fn happened(&mut self, collection: u64, at_ms: i64) {
        let run = RunId {
            experiment: ExperimentId(collection),
            number: 1,
        };
        let id = self.state.post.next_notice();
        let notice = Notice {
            id,
            key: format!("key {id}"),
            at_ms,
            decided_ms: self.now_ms,
            kind: NoticeKind::Ended {
                run,
                phase: Phase::Crashed,
            },
            called: false,
        };
        self.change(PostChange {
            notices: vec![Arc::new(notice)],
            ..PostChange::default()
        });
    }

    fn change(&mut self, change: PostChange) {
        self.state.apply(&Change::Post(Arc::new(change)));
    }

    fn plan(&self) -> MailPlan {
        let time = PlanTime {
            now_ms: self.now_ms,
            minute: u16::try_from(self.now_ms / MINUTE_MS % (24 * 60)).unwrap(),
            live_since_ms: self.live_since_ms,
            same_digest_ms: self.same_digest_ms,
        };
        plan(&self.state.post, &self.settings, &time, |notice| {
            NoticeContext {
                at_ms: notice.at_ms,
                is_wanted: true,
                collection: notice
                    .kind
                    .run()
                    .map(|run| run.experiment.to_string().into()),
                is_ready: self.ready,
                is_relayed: false,
                is_end_of_start: self.ends_start,
            }
        })
    }

    /// Does what is planned now, as the daemon does.
    fn turn(&mut self) -> MailPlan {
        let plan = self.plan();
        let mut change = PostChange::default();
        for letter in &plan.letters {
            self.letters.push((self.now_ms, letter.notices.clone()));
            change.settled.extend(&letter.notices);
            let id = self.state.post.next_delivery() + change.deliveries.len() as u64;
            change.deliveries.push(Arc::new(Delivery {
                id,
                key: format!("letter {id}"),
                thread: letter.collection.as_deref().map(str::to_owned),
                is_digest: letter.is_digest,
                made_ms: self.now_ms,
                ..delivery()
            }));
        }
        self.change(change);
        plan
    }

    /// Goes on until a time, with every turn that a plan asks for; bounded, since a plan
    /// that asks for ever more turns would be a daemon that never rests.
    fn until(&mut self, until_ms: i64) {
        for _ in 0..10_000 {
            let plan = self.turn();
            let again = self.plan();
            let next_ms = if plan.letters.is_empty() {
                plan.next_ms
            } else {
                again.next_ms
            };
            match next_ms {
                Some(next_ms) if next_ms <= until_ms => {
                    assert!(next_ms > self.now_ms, "it looks again at once");
                    self.now_ms = next_ms;
                }
                Some(_) | None => {
                    self.now_ms = until_ms;
                    return;
                }
            }
        }
        panic!("it never rests");
    }

    fn sizes(&self) -> Vec<usize> {
        self.letters
            .iter()
            .map(|(_, notices)| notices.len())
            .collect()
    }
}

fn delivery() -> Delivery {
    Delivery {
        id: 1,
        key: "k".to_owned(),
        way: DeliveryWay::Mail,
        to: "a@b".to_owned(),
        from: String::new(),
        subject: String::new(),
        message_id: String::new(),
        thread: None,
        is_digest: false,
        content: String::new(),
        made_ms: 0,
        tries: 0,
        // What is sent has its own tests.
        state: DeliveryState::Sent {
            at_ms: 0,
            words: String::new(),
        },
    }
}

#[test]
fn a_thousand_failures_at_once_are_one_letter_within_a_second() {
    let mut office = Office::new(settings());
    for _ in 0..1000 {
        office.happens(1);
    }
    office.until(NOON_MS + HOUR_MS);
    assert_eq!(office.sizes(), [1000]);
    assert!(office.letters[0].0 - NOON_MS <= 1000);
}

#[test]
fn a_thousand_failures_over_an_hour_are_a_few_letters() {
    let mut office = Office::new(settings());
    for _ in 0..1000 {
        office.happens(1);
        let next_ms = office.now_ms + HOUR_MS / 1000;
        office.until(next_ms);
    }
    office.until(office.now_ms + HOUR_MS);
    assert_eq!(office.sizes().iter().sum::<usize>(), 1000);
    assert!(office.letters.len() <= 7, "{:?}", office.sizes());
}

#[test]
fn a_single_event_is_told_within_300_ms_also_beside_another_collection() {
    let mut office = Office::new(settings());
    office.happens(1);
    office.until(NOON_MS + 300);
    office.happens(2);
    office.until(NOON_MS + 600);
    assert_eq!(office.sizes(), [1, 1]);
}

#[test]
fn a_crash_waits_for_its_last_lines_and_at_most_30_s() {
    let mut office = Office::new(settings());
    office.ready = false;
    office.happens(1);
    office.until(NOON_MS + 29_000);
    assert_eq!(office.letters.len(), 0);
    office.until(NOON_MS + 31_000);
    assert_eq!(office.letters.len(), 1);
    office.happens(2);
    office.until(NOON_MS + 33_000);
    office.ready = true;
    office.until(NOON_MS + 34_000);
    assert_eq!(office.letters.len(), 2);
}

#[test]
fn what_happened_during_a_sleep_is_one_letter_over_all_collections() {
    let mut office = Office::new(settings());
    for collection in 1..=9 {
        office.happened(collection, NOON_MS - 8 * HOUR_MS);
        // The nodes come back one after the other.
        let next_ms = office.now_ms + 3_000;
        office.until(next_ms);
    }
    office.until(NOON_MS + HOUR_MS);
    assert_eq!(office.sizes(), [9]);
}

#[test]
fn quiet_hours_hold_letters_back_and_end_in_one() {
    let mut office = Office::new(MailSettings {
        quiet: Some((22 * 60, 7 * 60)),
        ..settings()
    });
    office.now_ms = 21 * HOUR_MS;
    office.happens(1);
    office.until(23 * HOUR_MS);
    assert_eq!(office.sizes(), [1]);
    for collection in 1..=3 {
        office.happens(collection);
        office.until(office.now_ms + HOUR_MS);
    }
    assert_eq!(office.plan().waits, "quiet hours");
    office.until(31 * HOUR_MS - 1);
    assert_eq!(office.sizes(), [1]);
    office.until(31 * HOUR_MS + MINUTE_MS);
    assert_eq!(office.sizes(), [1, 3]);
}

#[test]
fn digests_come_while_something_runs_and_not_after() {
    let mut office = Office::new(MailSettings {
        digest_ms: Some(8 * HOUR_MS),
        ..settings()
    });
    office.until(NOON_MS + 100 * HOUR_MS);
    assert_eq!(office.letters.len(), 0);
    let began_ms = office.now_ms;
    office.live_since_ms = Some(began_ms);
    office.until(began_ms + 25 * HOUR_MS);
    let times: Vec<i64> = office
        .letters
        .iter()
        .map(|(at_ms, _)| (at_ms - began_ms) / HOUR_MS)
        .collect();
    assert_eq!(times, [8, 16, 24]);
    office.live_since_ms = None;
    office.until(began_ms + 100 * HOUR_MS);
    assert_eq!(office.letters.len(), 3);
}

#[test]
fn digests_take_no_place_of_what_happens_and_are_sent_behind_it() {
    let mut office = Office::new(MailSettings {
        digest_ms: Some(MINUTE_MS),
        letters_per_hour: 2,
        ..settings()
    });
    office.live_since_ms = Some(office.now_ms);
    office.until(NOON_MS + 10 * MINUTE_MS);
    assert_eq!(office.letters.len(), 10);
    office.happens(1);
    office.until(NOON_MS + 10 * MINUTE_MS + 1_000);
    assert_eq!(office.sizes().last(), Some(&1));
    // A digest that waits for the server since before a crash goes behind it.
    let mut office = Office::new(settings());
    let waiting = DeliveryState::Waiting {
        next_ms: NOON_MS,
        why: String::new(),
    };
    let deliveries = [(1, true), (2, false)].map(|(id, is_digest)| {
        Arc::new(Delivery {
            id,
            is_digest,
            state: waiting.clone(),
            ..delivery()
        })
    });
    office.change(PostChange {
        deliveries: deliveries.to_vec(),
        ..PostChange::default()
    });
    assert_eq!(office.plan().due, [2, 1]);
}

#[test]
fn a_digest_that_would_tell_nothing_new_is_looked_at_again_after_its_interval() {
    let mut office = Office::new(MailSettings {
        digest_ms: Some(HOUR_MS),
        ..settings()
    });
    office.live_since_ms = Some(NOON_MS);
    office.until(NOON_MS + HOUR_MS);
    assert_eq!(office.letters.len(), 1);
    office.now_ms = NOON_MS + 2 * HOUR_MS;
    assert_eq!(office.plan().letters.len(), 1);
    office.same_digest_ms = Some(office.now_ms);
    let plan = office.plan();
    assert!(plan.letters.is_empty());
    assert_eq!(plan.next_ms, Some(NOON_MS + 3 * HOUR_MS));
}

#[test]
fn the_end_of_a_start_waits_a_minute_at_most() {
    let mut office = Office::new(settings());
    for _ in 0..4 {
        office.happens(1);
        office.until(office.now_ms + 20 * MINUTE_MS);
    }
    let before_ms = office.now_ms;
    office.happens(1);
    office.until(before_ms + 2_000);
    office.ends_start = true;
    office.happens(1);
    office.until(before_ms + MINUTE_MS + 2_000);
    assert_eq!(office.sizes(), [1; 6]);
}

#[test]
fn calls_do_not_wait_for_letters_and_are_made_once() {
    let mut office = Office::new(MailSettings {
        has_command: true,
        quiet: Some((0, 24 * 60 - 1)),
        ..settings()
    });
    office.happens(1);
    let plan = office.turn();
    assert_eq!((plan.calls.len(), plan.letters.len()), (1, 0));
    let mut called = (*office.state.post.notices[&1]).clone();
    called.called = true;
    office.change(PostChange {
        notices: vec![Arc::new(called)],
        ..PostChange::default()
    });
    assert_eq!(office.turn().calls, [0_u64; 0]);
    office.settings.has_mail = false;
    assert_eq!(office.turn().unwanted, [1], "nobody waits for it any more");
}

#[test]
fn a_delivery_is_tried_ever_more_seldom_for_three_days() {
    let mut one = Delivery {
        state: DeliveryState::Waiting {
            next_ms: 0,
            why: String::new(),
        },
        ..delivery()
    };
    let mut now_ms = 0;
    let mut pauses = Vec::new();
    while let DeliveryState::Waiting { next_ms, .. } = one.state {
        pauses.push((next_ms - now_ms) / MINUTE_MS);
        now_ms = next_ms;
        one = one.after(SendResult::Later("451 later".to_owned()), now_ms);
    }
    assert_eq!(pauses[..9], [0, 1, 2, 4, 8, 16, 32, 64, 128]);
    assert_eq!(pauses.iter().max(), Some(&360));
    assert!(matches!(&one.state, DeliveryState::GivenUp { why, .. } if why == "451 later"));
    let day_ms = 24 * HOUR_MS;
    assert!((2 * day_ms..=3 * day_ms).contains(&now_ms), "{now_ms}");
}

#[test]
fn what_waited_for_a_person_for_a_week_is_not_given_up_at_the_next_failure() {
    let week_ms = 7 * 24 * HOUR_MS;
    let one = delivery().after(SendResult::LoginRefused("535 no".to_owned()), 0);
    let one = one.again(week_ms).unwrap();
    let one = one.after(SendResult::Later("451 later".to_owned()), week_ms);
    assert!(
        matches!(one.state, DeliveryState::Waiting { .. }),
        "{one:?}"
    );
}

#[test]
fn letters_of_the_last_hour_are_remembered_however_many_they_are() {
    let mut office = Office::new(settings());
    let deliveries = (1..=500).map(|id| {
        let made_ms = NOON_MS + i64::try_from(id).unwrap();
        Arc::new(Delivery {
            id,
            made_ms,
            ..delivery()
        })
    });
    office.change(PostChange {
        deliveries: deliveries.collect(),
        ..PostChange::default()
    });
    assert_eq!(office.state.post.to_forget(NOON_MS), [0_u64; 0]);
    let forgotten = office.state.post.to_forget(NOON_MS + HOUR_MS);
    assert_eq!(forgotten.len(), 300);
    assert!(forgotten.iter().all(|id| *id <= 300));
}

#[test]
fn a_refused_login_stops_its_way_until_a_person_acts_and_a_refused_recipient_no_other() {
    let mut office = Office::new(MailSettings {
        has_webhook: true,
        ..settings()
    });
    let waiting = |id, way| Delivery {
        id,
        way,
        state: DeliveryState::Waiting {
            next_ms: NOON_MS,
            why: String::new(),
        },
        ..delivery()
    };
    let all = [
        waiting(1, DeliveryWay::Mail),
        waiting(2, DeliveryWay::Mail),
        waiting(3, DeliveryWay::Webhook),
    ];
    let put = |office: &mut Office, one: Delivery| {
        office.change(PostChange {
            deliveries: vec![Arc::new(one)],
            ..PostChange::default()
        });
    };
    for one in all.clone() {
        put(&mut office, one);
    }
    assert_eq!(office.plan().due, [1, 2, 3]);
    let refused = SendResult::Refused("550 no such user".to_owned());
    put(&mut office, all[0].after(refused, NOON_MS));
    assert_eq!(office.plan().due, [2, 3]);
    put(&mut office, waiting(4, DeliveryWay::Mail));
    let login = SendResult::LoginRefused("535 no".to_owned());
    put(&mut office, all[1].after(login, NOON_MS));
    let plan = office.plan();
    assert_eq!((plan.due, plan.next_ms), (vec![3], None));
    let again = office
        .state
        .post
        .blocked(DeliveryWay::Mail)
        .unwrap()
        .again(NOON_MS)
        .unwrap();
    put(&mut office, again);
    assert_eq!(office.plan().due, [2, 3, 4]);
}

#[derive(Clone, Debug)]
struct Event {
    after_ms: i64,
    collection: u64,
    age_ms: i64,
    is_ready: bool,
}

fn event() -> impl Strategy<Value = Event> {
    let after_ms = prop_oneof![Just(0), 1..2_000_i64, 1_000..HOUR_MS];
    let age_ms = prop_oneof![4 => Just(0), 1 => 0..10 * HOUR_MS];
    (after_ms, 1..4_u64, age_ms, prop::bool::weighted(0.9)).prop_map(
        |(after_ms, collection, age_ms, is_ready)| Event {
            after_ms,
            collection,
            age_ms,
            is_ready,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever happens when: each notice is in exactly one letter, in time; no letter
    /// comes in quiet hours, and never more in an hour than allowed.
    #[test]
    fn each_notice_is_told_once_within_the_limits(
        events in prop::collection::vec(event(), 1..60),
        limit in 1..5_usize,
        quiet in prop::option::of((0..1440_u16, 0..1440_u16)),
    ) {
        let mut office = Office::new(MailSettings { letters_per_hour: limit, quiet, ..settings() });
        for event in &events {
            let next_ms = office.now_ms + event.after_ms;
            office.until(next_ms);
            office.ready = event.is_ready;
            office.happened(event.collection, office.now_ms - event.age_ms);
        }
        let last_ms = office.now_ms;
        office.until(last_ms + 30 * HOUR_MS);
        let mut told: BTreeMap<u64, usize> = BTreeMap::new();
        for (_, notices) in &office.letters {
            prop_assert!(!notices.is_empty());
            for id in notices {
                *told.entry(*id).or_default() += 1;
            }
        }
        prop_assert_eq!(told.len(), events.len());
        prop_assert!(told.values().all(|count| *count == 1), "{:?}", told);
        let times: Vec<i64> = office.letters.iter().map(|(at_ms, _)| *at_ms).collect();
        for window in times.windows(limit + 1) {
            prop_assert!(window[limit] - window[0] >= HOUR_MS, "{:?}", times);
        }
        if let Some((from, to)) = quiet {
            for at_ms in times {
                let minute = u16::try_from(at_ms / MINUTE_MS % (24 * 60)).unwrap();
                let holds = if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to };
                prop_assert!(!holds, "a letter at minute {minute}");
            }
        }
    }
}
