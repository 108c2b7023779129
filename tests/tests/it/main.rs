//! Scenarios with the real programs: what a user was promised, whatever dies.

#![allow(
    clippy::disallowed_methods,
    reason = "the runtime of a test ends its tasks"
)]

mod adopted;
mod ambiguous;
mod arrays;
mod asked;
mod batches;
mod cells;
mod clients;
mod clock;
mod cohorts;
mod content;
mod control;
mod damaged;
mod described;
mod disk;
mod environments;
mod exported;
mod files;
mod golden;
mod hosts;
mod input;
mod jobs;
mod joined;
mod kill;
mod mail;
mod mail_test;
mod multihost;
mod neighbours;
mod noodles;
mod noodles_beside;
mod noodles_ssh;
mod notebook;
mod optuna;
mod own_values;
mod placing;
mod power;
mod precedence;
mod preemption;
mod progress;
mod python;
mod read_only;
mod restored;
mod retries;
mod review;
mod rules;
mod rules_killed;
mod scheduler_ends;
mod schedulers;
mod selecting;
mod sessions;
mod settling;
mod shared_disk;
mod shared_home;
mod skew;
mod sources;
mod ssh;
mod ssh_balance;
mod ssh_clusters;
mod ssh_faults;
mod ssh_groups;
mod ssh_placed;
mod ssh_recalled;
mod story;
mod submitted;
mod submitted_kills;
mod tables;
mod take_over;
mod told;
mod typed;
mod wardens;
mod wheel;
mod words;
