//! What `matrix` and `check` share: playing cells with a progress bar, until Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use algorithms::Algorithm;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use scenarios::matrix::{Matrix, Seeds, size};
use scenarios::verify::Verification;
use scenarios::{Scenario, matrix, verify};
use sim::engine::Engine;

use crate::arguments::Sweep;

/// Plays every algorithm under every scenario.
pub(crate) fn sweep(
    arguments: &Sweep,
    algorithms: &[&dyn Algorithm],
    scenarios: &[Scenario],
    engine: &dyn Engine,
    stop: &AtomicBool,
) -> Result<Matrix> {
    let seeds = seeds(arguments);
    let runs = size(algorithms, scenarios, seeds, engine);
    watched(arguments, runs, |progress| {
        matrix::play(algorithms, scenarios, seeds, engine, progress, stop)
    })
}

/// As [`sweep`], and then every run again.
pub(crate) fn sweep_twice(
    arguments: &Sweep,
    algorithms: &[&dyn Algorithm],
    scenarios: &[Scenario],
    engine: &dyn Engine,
    stop: &AtomicBool,
) -> Result<(Matrix, Verification)> {
    let seeds = seeds(arguments);
    let runs = 2 * size(algorithms, scenarios, seeds, engine);
    watched(arguments, runs, |progress| {
        verify::play(algorithms, scenarios, seeds, engine, progress, stop)
    })
}

fn seeds(arguments: &Sweep) -> Seeds {
    Seeds {
        from: 0,
        count: arguments.seeds,
    }
}

/// Calls `play` in as many threads as there are jobs, behind a progress bar.
fn watched<T: Send>(
    arguments: &Sweep,
    runs: u64,
    play: impl FnOnce(&(dyn Fn() + Sync)) -> T + Send,
) -> Result<T> {
    let progress = ProgressBar::new(runs);
    let style = "{wide_bar} {human_pos} of {human_len} runs, {per_sec}, {eta} left";
    progress.set_style(ProgressStyle::with_template(style).expect("the template is right"));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(arguments.jobs.map_or(0, usize::from))
        .build()
        .context("failed to start threads")?;
    let tick = || progress.inc(1);
    let played = pool.install(|| play(&tick));
    progress.finish_and_clear();
    Ok(played)
}

/// From here on Ctrl-C lets the runs that are being played end, and keeps what is done. A second
/// one ends the program.
pub(crate) fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if told.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        crate::output::remark("stopping; what is done is kept (Ctrl-C again ends at once)");
    })
    .context("failed to listen for Ctrl-C")?;
    Ok(stop)
}
