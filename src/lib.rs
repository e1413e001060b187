//! fencepost
