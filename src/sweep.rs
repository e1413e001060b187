//! What `matrix` and `check` share: playing cells with a progress bar, until Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use algorithms::Algorithm;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use scenarios::Scenario;
use scenarios::matrix::{Matrix, Seeds, play, size};
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
    let seeds = Seeds {
        from: 0,
        count: arguments.seeds,
    };
    let progress = ProgressBar::new(size(algorithms, scenarios, seeds, engine));
    let style = "{wide_bar} {human_pos} of {human_len} runs, {per_sec}, {eta} left";
    progress.set_style(ProgressStyle::with_template(style).expect("the template is right"));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(arguments.jobs.map_or(0, usize::from))
        .build()
        .context("failed to start threads")?;
    let tick = || progress.inc(1);
    let matrix = pool.install(|| play(algorithms, scenarios, seeds, engine, &tick, stop));
    progress.finish_and_clear();
    Ok(matrix)
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
    })
    .context("failed to listen for Ctrl-C")?;
    Ok(stop)
}
