//! The store with real files, real deaths and real damage.

mod damage;
mod facts;
mod full;
mod golden;
mod killed;
mod logs;
mod metrics;
mod older;
mod rig;
