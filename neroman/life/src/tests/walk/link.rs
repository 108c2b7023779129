//! The driver of a node: connections, requests, answers and news.

use nero_model::RunId;
use nero_node_core::turn::Turn;

use super::head::Errand;
use super::wire::{EndedRun, Ending, Request, SentRun};
use super::world::{DriverDue, Event, World, note};
use crate::fold::run::Run;
use crate::fold::state::State;
use crate::step::hand_over::{self, SendState};
use crate::step::input::Input;
use crate::step::needs;
use crate::step::recall;
use crate::tests::lab;

impl World {
    /// Rings the driver of a node.
    pub fn ring(&mut self, node: usize, runs: impl IntoIterator<Item = RunId>) {
        let link = &mut self.head.links[node];
        link.dirty.extend(runs);
        if link.conn == 0 {
            return self.want(node);
        }
        if !std::mem::replace(&mut link.is_looking, true) {
            self.due(node, 1, DriverDue::Look);
        }
    }

    /// Lets something of the driver be due after so many milliseconds, by its connection.
    pub fn due(&mut self, node: usize, ms: i64, due: DriverDue) {
        let conn = self.head.links[node].conn;
        self.clock.after(ms, Event::Driver(node, conn, due));
    }

    /// Something of the driver of a node is due.
    pub fn driver(&mut self, node: usize, due: DriverDue) {
        match due {
            DriverDue::Lost => self.lost(node),
            DriverDue::Look => self.look(node),
            DriverDue::LookAtAll => {
                self.head.links[node].is_all = true;
                self.ring(node, []);
            }
            DriverDue::Staged(runs) => self.staged(node, runs),
            DriverDue::Close => self.close(node),
            DriverDue::Fetched(run) => self.fetched(node, run),
            DriverDue::Reply(answer) => self.answered(node, answer),
            DriverDue::Stream(items) => {
                self.head.links[node].news.push_back(items);
                self.hear_news(node);
            }
        }
    }

    /// A connection is made if a run needs it.
    pub fn want(&mut self, node: usize) {
        let link = &mut self.head.links[node];
        if link.conn == 0 && !std::mem::replace(&mut link.is_trying, true) {
            let ms = 100 * (1 << link.failures.min(6));
            self.clock.after(ms, Event::Connect(node));
        }
    }

    /// A person asks for a try at once.
    pub fn try_now(&mut self, node: usize) {
        self.head.links[node].failures = 0;
        self.clock.soon(Event::Connect(node));
    }

    pub fn connect(&mut self, node: usize) {
        let now = self.clock.now;
        let link = &mut self.head.links[node];
        if link.conn > 0 || !self.head.is_up {
            return;
        }
        link.is_trying = false;
        let there = &mut self.nodes[node];
        if there.is_reached {
            there.wakes(&mut self.clock);
        }
        if !there.is_reached || there.agent.is_none() {
            link.failures += 1;
            link.away_ms.get_or_insert(now);
            return self.want(node);
        }
        link.conns += 1;
        link.conn = link.conns;
        link.process = self.nodes[node].processes;
        (link.failures, link.away_ms, link.asked_ms, link.is_all) = (0, None, None, true);
        let conn = link.conn;
        if let Some(agent) = &mut self.nodes[node].agent {
            agent.conn = conn;
        }
        note!(self.clock, None, "n{node}: connection {conn}");
        self.follow(node);
        self.due(node, 5, DriverDue::Look);
        self.head.links[node].is_looking = true;
        self.ring_placer();
    }

    /// Follows a node's records from where they are known.
    pub fn follow(&mut self, node: usize) {
        let name = &*self.nodes[node].name;
        let open = self.head.state.active().flat_map(|one| &one.runs);
        let is_there = |run: &&Run| run.node() == Some(name) && run.reached_its_node();
        let open = open.filter(|run| run.open()).filter(is_there).map(|run| {
            let id = run.made.id;
            let known = self.head.known.get(&id).copied().unwrap_or(0);
            (id, run.made.token, run.generation(), known)
        });
        let request = Request::Follow(open.collect());
        self.head.links[node].begins = true;
        self.send(node, request);
    }

    /// Sends a request. It may be lost, come late, or lose its answer, with the connection.
    pub fn send(&mut self, node: usize, request: Request) {
        let link = &self.head.links[node];
        let (conn, process) = (link.conn, link.process);
        let event = Event::ToNode(node, conn, process, request);
        let mut ms = self.clock.dice.ms(1, 40);
        if self.clock.fails(self.clock.rates.lost) {
            let lost = self.clock.dice.ms(1, 200);
            self.due(node, lost, DriverDue::Lost);
            if self.clock.dice.chance(300) {
                return;
            }
            if self.clock.dice.chance(500) {
                ms = self.clock.dice.ms(1, 5000);
            }
        }
        self.clock.after(ms, event);
    }

    /// The connection is lost; it shows within so many milliseconds.
    pub fn drops(&mut self, node: usize, most_ms: i64) {
        let ms = self.clock.dice.ms(1, most_ms);
        self.due(node, ms, DriverDue::Lost);
    }

    fn lost(&mut self, node: usize) {
        self.head.links[node].forget();
        note!(self.clock, None, "n{node}: the connection is lost");
        self.head.links[node].away_ms = Some(self.clock.now);
        self.want(node);
    }

    /// A request arrives, if the neromum that it was sent to is there still.
    pub fn arrives(&mut self, node: usize, conn: u32, process: u32, request: Request) {
        // A call whose caller left is at work still; a stream ends with its connection.
        let is_stream = matches!(request, Request::Follow(_) | Request::Closed(_));
        let is_of_owner = conn >= self.nodes[node].first_conn;
        if !is_of_owner || is_stream && self.head.links[node].conn != conn {
            return;
        }
        let there = &mut self.nodes[node];
        if there.is_process(process) {
            there.serves(&mut self.clock, conn, request);
        }
    }

    /// Takes the changed runs and notes what they need.
    fn look(&mut self, node: usize) {
        let link = &mut self.head.links[node];
        link.is_looking = false;
        let name = self.nodes[node].name.clone();
        let dirty = std::mem::take(&mut link.dirty);
        let state = &self.head.state;
        let runs: Vec<RunId> = if std::mem::take(&mut link.is_all) {
            let all = || state.experiments.iter().flat_map(|one| &one.runs);
            let left = all().filter(|run| run.is_left_on(&name));
            let left: Vec<RunId> = left.map(|run| run.made.id).collect();
            if !left.is_empty() {
                link.todo.push_back((Errand::Abandoned, left));
            }
            all()
                .filter(|run| run.open())
                .map(|run| run.made.id)
                .collect()
        } else {
            dirty.into_iter().collect()
        };
        let mut lists: [(Errand, Vec<RunId>); 4] =
            [Errand::Cancel, Errand::Hold, Errand::Lift, Errand::Recall].map(|one| (one, vec![]));
        for id in runs {
            let Some(run) = state.run(id).filter(|run| run.node() == Some(&*name)) else {
                continue;
            };
            let needs = needs::of(run);
            let wants = [needs.cancel, needs.hold, needs.lift, needs.recall];
            for ((_, list), wanted) in lists.iter_mut().zip(wants) {
                list.extend(wanted.then_some(id));
            }
            if needs.hand_over {
                link.to_send.insert(id);
            }
            if needs.results && link.fetched.insert(id) {
                let ms = self.clock.dice.ms(20, 500);
                let due = DriverDue::Fetched(id);
                self.clock.after(ms, Event::Driver(node, link.conn, due));
            }
            if needs.close {
                link.to_close.insert(id);
            }
        }
        let lists = lists.into_iter().filter(|(_, runs)| !runs.is_empty());
        link.todo.extend(lists);
        if !link.to_close.is_empty() && !std::mem::replace(&mut link.is_closing, true) {
            self.due(node, 1000, DriverDue::Close);
        }
        self.go_on(node);
    }

    /// Sends what is next: one request of each sort is on its way, and no run is handed over
    /// while runs are ended.
    pub fn go_on(&mut self, node: usize) {
        let link = &mut self.head.links[node];
        if link.awaits.is_none()
            && let Some((errand, runs)) = link.todo.front().cloned()
        {
            let is_held = link.sends || link.begins;
            let waits = is_held && matches!(errand, Errand::Cancel | Errand::Recall);
            if !waits {
                link.todo.pop_front();
                link.awaits = Some(errand);
                if !self.request(node, errand, &runs) {
                    self.head.links[node].awaits = None;
                    return self.go_on(node);
                }
            }
        }
        let link = &mut self.head.links[node];
        let is_free = !link.sends && !matches!(link.awaits, Some(Errand::Cancel | Errand::Recall));
        if is_free && !link.begins && !link.to_send.is_empty() {
            link.sends = true;
            self.stage(node);
        }
        self.hear_news(node);
    }

    /// Sends a request for runs; false if none of them needs it any more.
    pub fn request(&mut self, node: usize, errand: Errand, runs: &[RunId]) -> bool {
        let name = self.nodes[node].name.clone();
        if errand == Errand::Recall {
            let leaving = |state: &State, id: RunId| {
                let run = state.run(id).filter(|run| recall::is_leaving(run, &name))?;
                Some((id, run.placement()?))
            };
            let asked = runs.iter().filter_map(|id| leaving(&self.head.state, *id));
            let asked = asked.map(|(id, at)| (id, Input::RecallAsked { at }));
            let asked = asked.collect();
            self.input("the node is about to be asked", false, true, asked);
        }
        let state = &self.head.state;
        let here = |id: &RunId| state.run(*id).filter(|run| run.node() == Some(&*name));
        let ended = |run: &Run| EndedRun {
            id: run.made.id,
            token: run.made.token,
            at: run.placement(),
            cancel: run.cancel().cloned(),
        };
        let request = match errand {
            Errand::Abandoned => {
                let left = runs.iter().filter_map(|id| state.run(*id));
                let left = left.filter(|run| run.is_left_on(&name));
                Request::End(left.map(ended).collect(), Ending::LeftBehind)
            }
            Errand::Cancel => {
                let runs = runs.iter().filter_map(here);
                let runs = runs.filter(|run| run.cancel().is_some());
                Request::End(runs.map(ended).collect(), Ending::Cancel)
            }
            Errand::Recall => {
                let mut leaving = runs.iter().filter_map(here);
                // One generation at a time.
                let Some(first) = leaving.find(|run| recall::is_leaving(run, &name)) else {
                    return false;
                };
                let rest: Vec<RunId> = leaving.map(|run| run.made.id).collect();
                let ending = Ending::Recall(first.generation());
                let request = Request::End(vec![ended(first)], ending);
                if !rest.is_empty() {
                    self.head.links[node]
                        .todo
                        .push_front((Errand::Recall, rest));
                }
                request
            }
            Errand::Hold | Errand::Lift => {
                let runs = runs.iter().filter_map(here);
                let one = |run: &Run| Some((run.made.id, run.made.token, run.placement()?));
                Request::Pause(runs.filter_map(one).collect(), errand == Errand::Lift)
            }
        };
        let has_runs = match &request {
            Request::End(runs, _) => !runs.is_empty(),
            Request::Pause(runs, _) => !runs.is_empty(),
            _ => true,
        };
        if has_runs {
            self.send(node, request);
        }
        has_runs
    }

    /// Sends the files of the runs that are due.
    pub fn stage(&mut self, node: usize) {
        let tick = self.tick();
        let name = self.nodes[node].name.clone();
        let due = std::mem::take(&mut self.head.links[node].to_send).into_iter();
        let due = due.filter_map(|id| self.head.state.run(id));
        let due = due.filter(|run| hand_over::is_due(run, &name));
        let due: Vec<(RunId, u32)> = due.map(|run| (run.made.id, run.generation())).collect();
        if due.is_empty() {
            self.head.links[node].sends = false;
            return;
        }
        let mut ms = 1;
        if self.clock.dice.chance(300) {
            ms = self.clock.dice.ms(10, 10_000);
            let sending = Input::Sending {
                node: name,
                sending: SendState::FilesGo,
                tick,
            };
            let inputs = due.iter().map(|(id, _)| (*id, sending.clone())).collect();
            self.input("its files go to the node", false, false, inputs);
        }
        // The gate is free meanwhile: requests for the end of runs are sent.
        self.head.links[node].sends = false;
        self.due(node, ms, DriverDue::Staged(due));
    }

    /// Offers and sends runs whose files are there.
    fn staged(&mut self, node: usize, runs: Vec<(RunId, u32)>) {
        let link = &self.head.links[node];
        let is_ending = matches!(link.awaits, Some(Errand::Cancel | Errand::Recall));
        if link.sends || link.begins || is_ending {
            return self.due(node, 5, DriverDue::Staged(runs));
        }
        let name = self.nodes[node].name.clone();
        let state = &self.head.state;
        let movable = |id: &RunId| state.run(*id).is_some_and(Run::movable);
        let offered = runs.iter().filter(|(id, _)| movable(id));
        let offer = || Input::Offer { node: name.clone() };
        let offered = offered.map(|(id, _)| (*id, offer())).collect();
        self.input("it is offered", false, true, offered);
        let state = &self.head.state;
        let sent = runs.iter().filter_map(|(id, generation)| {
            let run = state.run(*id)?;
            let made = &run.made;
            hand_over::may_send(run, &name, *generation).then(|| SentRun {
                id: *id,
                token: made.token,
                generation: *generation,
                cpus: made.takes.cpus as u32,
                cards: self.plan.experiments[id.experiment.0 as usize - 1].cards,
                turn: Turn {
                    priority: made.priority,
                    since_ms: made.created_ms.unsigned_abs(),
                    rank: made.rank,
                    lasts_ms: 0,
                },
                is_again: hand_over::is_sent_again(run),
                folder: None,
            })
        });
        let sent: Vec<SentRun> = sent.collect();
        for run in &sent {
            let before = self.head.state.run(run.id).expect("it is sent").clone();
            self.judge(&before, "it is sent", false, false);
        }
        if !sent.is_empty() {
            self.head.links[node].sends = true;
            self.send(node, Request::HandOver(sent));
        }
        self.go_on(node);
    }

    fn fetched(&mut self, node: usize, id: RunId) {
        self.head.links[node].fetched.remove(&id);
        let run = self.head.state.run(id);
        if !run.is_some_and(|run| needs::of(run).results) {
            return;
        }
        let inputs = vec![(id, lab::results_done("r"))];
        self.input("its results are home", false, false, inputs);
    }

    fn close(&mut self, node: usize) {
        let link = &mut self.head.links[node];
        link.is_closing = false;
        let runs = std::mem::take(&mut link.to_close);
        let inputs = runs.iter().map(|id| (*id, Input::MayForget)).collect();
        self.input("the node may forget it", false, true, inputs);
        let closed = runs.iter().filter_map(|id| self.head.state.run(*id));
        let closed = closed.filter(|run| run.is_closed());
        let tokens = closed.map(|run| run.made.token).collect();
        self.send(node, Request::Closed(tokens));
    }
}
