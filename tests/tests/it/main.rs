//! Scenarios with the real programs: what a user was promised, whatever dies.

mod clients;
mod content;
mod disk;
mod files;
mod golden;
mod hosts;
mod input;
mod jobs;
mod kill;
mod neighbours;
mod placing;
mod review;
mod rules;
mod selecting;
mod sessions;
mod settling;
mod shared_home;
mod skew;
mod sources;
mod ssh;
mod ssh_faults;
mod ssh_groups;
mod ssh_withdrawn;
mod story;
mod take_over;
mod words;
