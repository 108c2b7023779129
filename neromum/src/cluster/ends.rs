//! The accounting is asked for ends of tasks that left the queue.

use nero_model::SubmissionId;
use nero_warden::{AdoptedJobRef, AdoptedJobState, Call, CallOutput, JobName};
use tokio::time::Instant;

use super::{Agent, Ask, Cluster, Submission};

impl Cluster {
    /// Asks the accounting for tasks that left the queue while runs of them are
    /// open.
    pub(super) fn ends_to_ask(agent: &mut Agent<Self>) -> Option<(Ask, Vec<Call>)> {
        let accounts = agent.driver.accounts();
        let (listed, _) = agent.driver.counted?;
        if !accounts.may_exist {
            return None;
        }
        let submissions = agent.driver.submissions.values();
        let ids: Vec<SubmissionId> = submissions
            .filter(|one| one.wants_ends(listed.into_std(), accounts, &agent.core))
            .take(100)
            .map(|submission| submission.id)
            .collect();
        let cluster = &mut agent.driver;
        let now_ms = nero_journal::Clocks::now().wall_ns / 1_000_000;
        let (mut names, mut oldest) = (Vec::new(), now_ms);
        for id in &ids {
            let submission = cluster.submissions.get_mut(id)?;
            submission.asks_for_ends(Instant::now().into_std());
            if let Some(one) = submission.adopted() {
                oldest = oldest.min(one.submitted_s.saturating_mul(1000));
            } else {
                names.push(submission.name.clone());
            }
            oldest = oldest.min(submission.made_ms);
        }
        if ids.is_empty() {
            return None;
        }
        // A day more, since clocks of hosts differ.
        let since_s = u64::try_from((now_ms - oldest) / 1000).unwrap_or(0) + 24 * 3600;
        let names: Vec<&JobName> = names.iter().collect();
        let mut calls = if names.is_empty() {
            Vec::new()
        } else {
            cluster.warden.ends_calls(&names, since_s)
        };
        let of = |id: &SubmissionId| cluster.submissions.get(id)?.adopted();
        let adopted: Vec<AdoptedJobRef<'_>> = ids.iter().filter_map(of).collect();
        if !adopted.is_empty() {
            calls.extend(cluster.warden.adopted_ends_calls(&adopted, since_s));
        }
        Some((Ask::Ends(ids), calls))
    }

    pub(super) fn ends_answered(
        agent: &mut Agent<Self>,
        ids: &[SubmissionId],
        said: &[CallOutput],
    ) {
        let cluster = &mut agent.driver;
        let of = |id: &SubmissionId| cluster.submissions.get(id);
        let (by_hand, ours): (Vec<&Submission>, Vec<&Submission>) = ids
            .iter()
            .filter_map(of)
            .partition(|one| one.adoption.is_some());
        let names: Vec<JobName> = ours.iter().map(|one| one.name.clone()).collect();
        let names: Vec<&JobName> = names.iter().collect();
        let answers = if names.is_empty() {
            0
        } else {
            cluster.warden.ends_calls(&names, 0).len()
        };
        let (said, more) = said.split_at(answers.min(said.len()));
        let by_hand: Vec<AdoptedJobRef<'_>> =
            by_hand.iter().filter_map(|one| one.adopted()).collect();
        let told = if by_hand.is_empty() {
            Ok(Vec::new())
        } else {
            cluster.warden.read_adopted_ends(more, &by_hand)
        };
        match told {
            Ok(told) => Self::adopted_ended(agent, &told),
            Err(error) => tracing::info!(%error, "the accounting tells nothing of adopted jobs"),
        }
        let cluster = &mut agent.driver;
        for id in ids {
            if let Some(submission) = cluster.submissions.get_mut(id) {
                submission.ends_were_asked();
            }
        }
        let records = if names.is_empty() {
            Ok(Vec::new())
        } else {
            cluster.warden.read_ends(said, &names)
        };
        match records {
            Ok(records) => {
                let submissions = cluster.submissions.values_mut();
                submissions.for_each(|one| one.accounted(&records));
            }
            // The queue decides without it, later.
            Err(error) => tracing::info!(%error, "the accounting does not answer"),
        }
        Self::look_at_what_is_gone(agent);
    }

    /// The accounting's word about adopted jobs.
    fn adopted_ended(agent: &mut Agent<Self>, told: &[AdoptedJobState]) {
        for submission in agent.driver.submissions.values_mut() {
            let mut of_it = told.iter().filter(|one| one.row.name == submission.name);
            // Earlier starts come first.
            if let Some(one) = of_it.next_back() {
                for task in &mut submission.tasks {
                    task.accounted(&one.row.state);
                }
            }
        }
        Self::see_adopted(agent, told);
    }
}
