//! Scenarios with the real programs: what a user was promised, whatever dies.

mod clients;
mod disk;
mod golden;
mod hosts;
mod input;
mod jobs;
mod kill;
mod review;
mod rules;
mod selecting;
mod story;
mod words;
