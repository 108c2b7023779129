//! Scenarios with the real programs.
