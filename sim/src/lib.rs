//! Deterministic worlds: nodes, clocks, a network, Redis servers and a fenced store.

pub mod redis;
