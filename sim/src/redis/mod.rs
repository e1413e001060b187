//! A simulated Redis.
