//! Rules: when they hold, how often they fire, what their names mean.

use nero_journal::v1::{JobExited, RuleOff, Sample};
use nerokid::core::facts::{Moment, Param, RunFacts, Sight};
use nerokid::core::log::Log;
use nerokid::core::record::Record;
use nerokid::core::rules::{Effect, Rules, SentRule};
use nerokid::core::series::{AllSeries, LineEnd};

const LINE: LineEnd = LineEnd {
    log: Log::Stdout,
    offset: 9,
    is_old: false,
};

struct Bench {
    rules: Rules,
    facts: RunFacts,
    series: AllSeries,
    now: Moment,
    out: Vec<Record>,
}

impl Bench {
    fn new(rules: &[(&str, &str)]) -> Self {
        let mut bench = Self {
            rules: Rules::default(),
            facts: RunFacts {
                id: 144,
                name: "fit".to_owned(),
                node: "box".to_owned(),
                params: vec![
                    Param::new("lr", "0.10", "0.1"),
                    Param::new("opt", "adam", "\"adam\""),
                    Param::new("Big Model", "yes", "true"),
                ],
                params_text: "--lr 0.10".to_owned(),
                started: Some(Moment {
                    mono_ms: 1000,
                    wall_ms: 1_700_000_000_000,
                }),
                ..RunFacts::default()
            },
            series: AllSeries::default(),
            now: Moment {
                mono_ms: 1000,
                wall_ms: 1_700_000_000_000,
            },
            out: Vec::new(),
        };
        bench.apply(1, rules);
        bench
    }

    /// The rules that are off, each with the reason.
    fn apply(&mut self, version: u64, rules: &[(&str, &str)]) -> Vec<String> {
        let given = rules.iter().zip(1..).map(|((action, text), id)| {
            let (action, argument) = action.split_once(' ').unwrap_or((action, ""));
            SentRule {
                id,
                action: action.to_owned(),
                argument: argument.to_owned(),
                text: (*text).to_owned(),
                author: "ada".to_owned(),
                repeat_ms: 0,
            }
        });
        let sight = Sight {
            facts: &self.facts,
            series: &self.series,
            now: self.now,
        };
        let off = self
            .rules
            .apply(version, given.collect(), &sight, &mut self.out);
        let shown = |off: RuleOff| format!("{} `{}`: {}", off.rule, off.text, off.why);
        off.into_iter().map(shown).collect()
    }

    fn later(&mut self, ms: u64) {
        self.now = self.now.later(ms);
    }

    /// A point arrives; what fired.
    fn point(&mut self, name: &str, value: f64) -> Vec<String> {
        let series = self.series.of(name).unwrap();
        self.series.set_ran_ms(self.now.mono_ms - 1000);
        self.series.add(series, &Default::default(), value, 0, LINE);
        let sight = Sight {
            facts: &self.facts,
            series: &self.series,
            now: self.now,
        };
        self.rules.see(&sight, &mut self.out);
        for (series, past) in self.rules.take_wants() {
            self.series.want(series, past);
        }
        let sight = Sight {
            facts: &self.facts,
            series: &self.series,
            now: self.now,
        };
        self.rules.touched(&[series], &sight, &mut self.out);
        self.fired()
    }

    /// Everything is evaluated; what fired.
    fn all(&mut self) -> Vec<String> {
        let sight = Sight {
            facts: &self.facts,
            series: &self.series,
            now: self.now,
        };
        self.rules.all(&sight, &mut self.out);
        self.fired()
    }

    fn fired(&mut self) -> Vec<String> {
        let fired = self.out.iter().filter_map(|record| match record {
            Record::RuleFired(fired) => Some(format!(
                "{} {} {}: {}",
                fired.rule, fired.action, fired.times, fired.values
            )),
            _ => None,
        });
        let fired = fired.collect();
        self.out
            .retain(|record| !matches!(record, Record::RuleFired(_)));
        fired
    }

    fn due_in(&self, horizon_ms: u64) -> Option<u64> {
        let sight = Sight {
            facts: &self.facts,
            series: &self.series,
            now: self.now,
        };
        let due = self.rules.due_ms(&sight, horizon_ms);
        due.map(|due| due - self.now.mono_ms)
    }
}

#[test]
fn an_abort_fires_once_with_its_values() {
    let mut bench = Bench::new(&[("abort", "loss > 5")]);
    assert_eq!(bench.all(), [""; 0]);
    assert_eq!(bench.point("loss", 1.0), [""; 0]);
    assert_eq!(bench.point("loss", 7.31), ["1 abort 1: loss = 7.31"]);
    let aborts = bench.rules.take_asked();
    assert_eq!(
        (aborts.len(), aborts[0].rule, aborts[0].author.as_str()),
        (1, 1, "ada")
    );
    assert_eq!(bench.point("loss", 9.0), [""; 0]);
    bench.later(3_600_000);
    assert_eq!(bench.all(), [""; 0]);
    assert!(bench.rules.take_asked().is_empty());
}

#[test]
fn restart_and_requeue_end_the_run_and_pause_stops_it_again_after_a_while() {
    for action in ["restart", "requeue"] {
        let mut bench = Bench::new(&[(action, "loss > 5"), ("abort", "loss > 6")]);
        assert_eq!(
            bench.point("loss", 7.0),
            [format!("1 {action} 1: loss = 7")]
        );
        let asked = bench.rules.take_asked();
        assert!(
            asked.len() == 1 && asked[0].effect == Effect::End,
            "one end is enough"
        );
    }
    let mut bench = Bench::new(&[("pause", "loss > 5")]);
    assert_eq!(bench.point("loss", 7.0).len(), 1);
    assert_eq!(bench.rules.take_asked()[0].effect, Effect::Pause);
    bench.facts.paused_since = Some(bench.now);
    bench.later(3_600_000);
    assert_eq!(bench.all(), [""; 0], "it is paused");
    bench.facts.paused_since = None;
    bench.facts.resumed_ms = bench.now.mono_ms;
    bench.later(9 * 60_000);
    assert_eq!(bench.all(), [""; 0], "a person let it go on just now");
    bench.later(60_000);
    assert_eq!(bench.all().len(), 1);
    bench.rules.run_is_over();
    assert!(bench.rules.take_asked().is_empty());
}

#[test]
fn a_signal_is_sent_at_each_firing_and_never_to_a_paused_or_ended_job() {
    let mut bench = Bench::new(&[("signal USR1", "loss > 5")]);
    assert_eq!(bench.point("loss", 7.0), ["1 signal USR1 1: loss = 7"]);
    assert_eq!(bench.rules.take_asked()[0].effect, Effect::Signal(10));
    assert!(bench.rules.inherited().is_empty(), "the job may have it");
    bench.later(599_999);
    assert_eq!(bench.all(), [""; 0]);
    bench.later(1);
    bench.facts.paused_since = Some(bench.now);
    assert_eq!(bench.all(), [""; 0], "it is paused");
    bench.facts.paused_since = None;
    assert_eq!(bench.all(), ["1 signal USR1 2: loss = 7"]);
    bench.rules.run_is_over();
    assert!(bench.rules.take_asked().is_empty());
    bench.later(3_600_000);
    assert_eq!(bench.all(), [""; 0]);
    let off = bench.apply(2, &[("signal NOPE", "loss > 5")]);
    assert_eq!(off, ["1 `loss > 5`: there is no signal `NOPE` here"]);
}

#[test]
fn the_time_left_is_that_of_our_limit_or_of_the_allocation() {
    let mut bench = Bench::new(&[("warn", "timeleft < 1m")]);
    bench.later(3_600_000);
    assert_eq!(bench.all(), [""; 0], "there is no limit");
    bench.facts.granted_until_ms = bench.now.wall_ms + 60_001;
    assert_eq!(bench.all(), [""; 0]);
    assert_eq!(bench.due_in(10_000), Some(2));
    bench.now.wall_ms += 3_600_000;
    assert_eq!(bench.all(), [""; 0], "only the clock was set");
    bench.facts.time_limit_ms = 3_600_000 + 59_000;
    assert_eq!(bench.all().len(), 1, "our limit comes first");
}

#[test]
fn a_spike_between_two_looks_is_seen() {
    let mut bench = Bench::new(&[("warn", "loss > 5")]);
    assert_eq!(bench.point("loss", 7.0).len(), 1);
    assert_eq!(bench.point("loss", 1.0).len(), 0);
}

#[test]
fn warnings_come_again_after_their_pause_while_they_hold() {
    let mut bench = Bench::new(&[("warn", "loss > 5")]);
    assert_eq!(bench.point("loss", 7.0).len(), 1);
    bench.later(599_999);
    assert_eq!(bench.all().len(), 0);
    bench.later(1);
    assert_eq!(bench.all(), ["1 warn 2: loss = 7"]);
    bench.point("loss", 1.0);
    bench.later(3_600_000);
    assert_eq!(bench.all().len(), 0);
}

#[test]
fn nan_and_missing_fire_nothing_but_can_be_asked_for() {
    let mut bench = Bench::new(&[("abort", "loss > 5"), ("warn", "loss != loss")]);
    assert_eq!(bench.point("loss", f64::NAN), ["2 warn 1: loss = NaN"]);
}

#[test]
fn facts_and_parameters_can_be_asked_for() {
    let mut bench = Bench::new(&[
        ("warn", "id == 144 && node == 'box'"),
        ("warn", "lr == 0.1 && opt == 'adam' && state == running"),
        ("warn", "bigmodel"),
        ("warn", "params = *lr*"),
        ("warn", "exit == 3 || cpu > 90"),
        ("warn", "mem > 1G || cpu > 1"),
    ]);
    assert_eq!(bench.all().len(), 4);
    bench.facts.exited = Some(JobExited {
        code: 3,
        ..JobExited::default()
    });
    assert_eq!(bench.all(), ["5 warn 1: exit = 3, cpu = unknown"]);
    bench.facts.sample = Some(Sample {
        rss_bytes: 2 << 30,
        ..Sample::default()
    });
    assert_eq!(bench.all(), ["6 warn 1: mem = 2G, cpu = 0"]);
}

#[test]
fn time_alone_is_foreseen() {
    let mut bench = Bench::new(&[("abort", "runtime > 7s && lr < 1")]);
    assert_eq!(bench.due_in(5_000), None);
    assert_eq!(bench.due_in(10_000), Some(7_001));
    bench.later(7_000);
    assert_eq!(bench.all().len(), 0);
    bench.later(1);
    assert_eq!(bench.all(), ["1 abort 1: runtime = 7.001s, lr = 0.10"]);
    assert_eq!(bench.due_in(10_000), None);
}

#[test]
fn silence_counts_from_the_last_output() {
    let mut bench = Bench::new(&[("notify", "silent > 20m")]);
    bench.facts.output_ms = 61_000;
    bench.later(1_000_000);
    assert_eq!(bench.due_in(10_000), None);
    bench.later(259_000);
    assert_eq!(bench.due_in(10_000), Some(1_001));
}

#[test]
fn a_loose_name_is_bound_once_and_a_second_fit_makes_it_unknown() {
    let mut bench = Bench::new(&[("warn", "errorrate > 0.4")]);
    assert_eq!(bench.point("error_rate", 0.1).len(), 0);
    let Some(Record::RuleBound(bound)) = bench.out.first() else {
        panic!("not recorded: {:?}", bench.out);
    };
    assert_eq!(
        (
            bound.written.as_str(),
            bound.exact.as_str(),
            bound.kind.as_str()
        ),
        ("errorrate", "error_rate", "metric")
    );
    assert_eq!(bench.point("error_rate", 0.5).len(), 1);
    bench.out.clear();
    bench.later(3_600_000);
    assert_eq!(bench.point("Error rate", 0.9).len(), 0);
    assert_eq!(bench.point("error_rate", 0.9).len(), 0);
    let told: Vec<&Record> = bench.out.iter().collect();
    assert!(matches!(told[0], Record::Notice(_)), "{told:?}");
    let Record::RuleBound(bound) = told[1] else {
        panic!("{told:?}");
    };
    assert_eq!(bound.also, ["metric Error rate"]);
}

#[test]
fn a_rule_that_cannot_apply_is_off_and_the_others_stand() {
    for (action, text, why) in [
        ("warn", "loss >", "2 `loss >`: something is missing here"),
        ("explode", "loss > 5", "no action `explode`"),
        ("warn", "param.nope > 5", "no parameter is called `nope`"),
        (
            "warn",
            "waittime > 5 && cpu > 1",
            "`waittime` is known to neroman",
        ),
    ] {
        let mut bench = Bench::new(&[("warn", "loss > 100")]);
        let off = bench.apply(2, &[("abort", "loss > 5"), (action, text)]);
        assert_eq!(off.len(), 1, "{text}");
        assert!(off[0].contains(why), "{off:?}");
        assert_eq!(bench.rules.version(), 2);
        assert_eq!(bench.point("loss", 7.0), ["1 abort 1: loss = 7"]);
    }
}

#[test]
fn a_rule_that_neroman_evaluates_is_passed_over() {
    let mut bench = Bench::new(&[("notify", "crashed"), ("abort", "waittime > 0")]);
    assert_eq!(bench.all(), Vec::<String>::new());
    assert_eq!(bench.apply(2, &[("notify", "ended || exit == 0")]).len(), 0);
}

#[test]
fn a_printed_argument_leaves_the_rule_over_the_parameter_in_force() {
    let mut bench = Bench::new(&[("warn", "lr > 0.05")]);
    assert_eq!(
        bench.point("lr", 0.1),
        Vec::<String>::new(),
        "fired by itself"
    );
    assert_eq!(bench.all(), ["1 warn 1: lr = 0.10"]);
}

#[test]
fn a_new_set_keeps_what_was_fired_and_bound() {
    let mut bench = Bench::new(&[("abort", "errorrate > 0.4")]);
    bench.point("error_rate", 0.5);
    bench.rules.take_asked();
    bench.out.clear();
    bench.apply(
        2,
        &[("abort", "errorrate > 0.3"), ("abort", "error_rate > 0.2")],
    );
    assert_eq!(
        bench.point("error_rate", 0.6).len(),
        0,
        "a run is aborted once"
    );
    let bound = bench
        .out
        .iter()
        .filter(|record| matches!(record, Record::RuleBound(_)));
    assert_eq!(bound.count(), 1, "only the new rule's name is news");
}

#[test]
fn a_rule_aborts_nothing_after_the_end_of_the_run() {
    let mut bench = Bench::new(&[("abort", "loss > 5"), ("notify", "loss > 5")]);
    bench.rules.run_is_over();
    assert_eq!(bench.point("loss", 7.0), ["2 notify 1: loss = 7"]);
    assert!(bench.rules.take_asked().is_empty());
}

#[test]
fn the_records_of_an_earlier_watcher_count() {
    let mut first = Bench::new(&[("abort", "loss > 5"), ("warn", "loss > 5")]);
    let series = first.series.of("loss").unwrap();
    first.series.add(series, &Default::default(), 7.0, 0, LINE);
    let sight = Sight {
        facts: &first.facts,
        series: &first.series,
        now: first.now,
    };
    first.rules.all(&sight, &mut first.out);

    let mut history = nerokid::core::history::History::default();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("watch-1.seg");
    let writer = nero_journal::Writer::Watcher;
    let mut segment = nero_journal::Segment::create(&path, writer, &[7; 16], 1).unwrap();
    for record in &first.out {
        let clocks = nero_journal::Clocks {
            wall_ns: 0,
            mono_ns: first.now.mono_ms * 1_000_000,
        };
        record.append(&mut segment, clocks).unwrap();
    }
    history.begin_segment(false);
    nerokid::folder::segments::for_each(&path, |record| history.fold(record)).unwrap();

    let mut second = Bench::new(&[]);
    second.rules = Rules::new(history.bound, history.fired, history.ran, history.held);
    second.apply(1, &[("abort", "loss > 5"), ("warn", "loss > 5")]);
    assert_eq!(second.point("loss", 8.0).len(), 0);
    let inherited = second.rules.inherited();
    assert_eq!((inherited.len(), inherited[0].rule), (1, 1));
    assert_eq!(inherited[0].author, "ada");
    second.later(600_000);
    assert_eq!(second.all(), ["2 warn 2: loss = 8"]);
    let news = second
        .out
        .iter()
        .any(|record| matches!(record, Record::RuleBound(_)));
    assert!(!news, "the binding is recorded already");
}

#[test]
fn a_window_looks_at_the_last_minutes_of_run_time() {
    let mut bench = Bench::new(&[
        ("warn", "mean(loss, 64s) < 1"),
        ("warn", "count(loss) == 3"),
    ]);
    assert_eq!(bench.point("loss", 5.0), Vec::<String>::new());
    bench.later(60_000);
    assert_eq!(
        bench.point("loss", 0.5),
        Vec::<String>::new(),
        "the mean is 2.75"
    );
    bench.later(10_000);
    let fired = [
        "1 warn 1: mean(loss, 64s) = 0.5",
        "2 warn 1: count(loss) = 3",
    ];
    assert_eq!(bench.point("loss", 0.5), fired);
}

#[test]
fn the_value_at_a_step_decides_at_the_line_that_gets_there() {
    let mut bench = Bench::new(&[("abort", "loss@2 > 1")]);
    assert_eq!(bench.point("loss", 9.0), Vec::<String>::new());
    assert_eq!(bench.point("loss", 3.0), ["1 abort 1: loss@2 = 3"]);
    let mut bench = Bench::new(&[("abort", "loss@1 > 1")]);
    assert_eq!(bench.point("loss", 9.0).len(), 1, "the first line of all");
}

#[test]
fn a_condition_has_to_hold_for_its_time_at_every_line() {
    let mut bench = Bench::new(&[("abort", "loss > 5 for 5s")]);
    bench.point("loss", 9.0);
    assert_eq!(
        bench.due_in(60_000),
        Some(5_000),
        "time alone makes it fire"
    );
    bench.later(3_000);
    bench.point("loss", 1.0);
    bench.point("loss", 9.0);
    bench.later(4_999);
    assert_eq!(bench.all(), Vec::<String>::new());
    bench.later(1);
    assert_eq!(bench.all(), ["1 abort 1: loss = 9"]);
}

#[test]
fn a_paused_job_brings_a_condition_no_nearer() {
    let mut bench = Bench::new(&[("warn", "running for 5s"), ("warn", "loss > 5 for 5s")]);
    bench.point("loss", 9.0);
    bench.later(2_000);
    bench.facts.paused_since = Some(bench.now);
    bench.later(3_600_000);
    assert_eq!(bench.all(), Vec::<String>::new());
    bench.facts.paused_ms = 3_600_000;
    bench.facts.paused_since = None;
    bench.later(3_000);
    let fired = bench.all();
    assert_eq!(fired.len(), 1, "{fired:?}");
    assert!(fired[0].starts_with("2 warn"), "{fired:?}");
}

#[test]
fn a_time_that_a_condition_waits_for_begins_when_time_alone_makes_it_true() {
    let bench = Bench::new(&[("warn", "runtime > 20 for 5s")]);
    assert_eq!(bench.due_in(60_000), Some(20_001));
}

#[test]
fn since_when_a_condition_holds_is_recorded_once_and_before_the_points() {
    let mut bench = Bench::new(&[("warn", "loss > 5 for 5s")]);
    bench.point("loss", 1.0);
    bench.rules.tell_held(&mut bench.out);
    let held = |bench: &mut Bench| {
        bench.rules.tell_held(&mut bench.out);
        let first = bench.out.first().cloned();
        bench.out.clear();
        match first {
            Some(Record::RuleHeld(held)) => Some(held.since_s),
            Some(_) | None => None,
        }
    };
    assert_eq!(held(&mut bench), None, "it never held");
    bench.later(1_000);
    bench.point("loss", 9.0);
    assert_eq!(held(&mut bench), Some(vec![1.0]));
    bench.later(1_000);
    bench.point("loss", 9.0);
    assert_eq!(held(&mut bench), None, "nothing changed");
    bench.point("loss", 1.0);
    assert!(held(&mut bench).is_some_and(|since| since[0].is_nan()));
}
