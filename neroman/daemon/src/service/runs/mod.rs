//! Runs that are started, ended, paused or waited for, and what a start tells before.

mod abort;
mod adopted;
mod cost;
mod hidden_gpus;
mod order;
mod pause;
mod per_node;
mod script;
mod start;
mod unschedulable;
mod wait;
