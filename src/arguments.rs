//! What can be typed.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Breaks distributed locks on purpose, repeatably, before production does.
///
/// Simulated Redis servers, clients, clocks and a store run under seeded partitions, pauses,
/// crashes and clock steps. Every lock meets the same trouble; the report says which of them
/// let two holders write, and how often.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  fencepost matrix                       every lock under every scenario
  fencepost run naive gc-pause           the story of one incident
  fencepost run fenced gc-pause --seed 7 --plot incident.svg
  fencepost check                        the built-in expectations, as a gate in CI
  fencepost check my-scenario.toml       your own

Exit status: 0 done and as expected, 1 bad usage or input, 2 `check` found a difference,
3 a run did not reproduce.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List algorithms, scenarios, invariants and kinds of work
    List(List),
    /// Play one run and tell its story
    Run(Run),
    /// Play every algorithm under every scenario: the main job
    Matrix(Matrix),
    /// Compare what happens with what the scenarios expect: the gate in CI
    Check(Check),
    /// Serve the simulated Redis to any client, in real time, until Ctrl-C
    Serve(Serve),
    /// Print everything that happens in one run, for `run --verify`
    #[command(hide = true)]
    Trace(Trace),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fencepost list
  fencepost list --json")]
pub(crate) struct List {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fencepost run naive gc-pause
  fencepost run redlock server-clock-step --seed 3 --plot clocks.png
  fencepost run renewing slow-work --set ttl=10s --set renew_every=9s
  fencepost run fenced gc-pause --seed 7 --verify")]
pub(crate) struct Run {
    /// The algorithm; see `fencepost list`
    pub(crate) algorithm: String,
    /// The scenario: a name from `fencepost list`, or the path of a TOML file
    pub(crate) scenario: String,
    /// The seed; without it, the first one under which something is violated
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) engine: Engine,
    /// Change a value of the scenario, as in ttl=10s, client.retry=1s..2s, fault.1.lasts=40s
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Play it again in another thread and in another process, and compare everything that happens
    #[arg(long)]
    pub(crate) verify: bool,
    /// Write the history and the verdict to a file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw the incident, as .svg or .png
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Tell everything, however long the story gets
    #[arg(long)]
    pub(crate) whole: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fencepost matrix
  fencepost matrix --seeds 1000 --algorithms naive,redlock --scenarios gc-pause,slow-work
  fencepost matrix --scenarios my-scenario.toml --out report
  fencepost matrix --seeds 20 --verify")]
pub(crate) struct Matrix {
    #[command(flatten)]
    pub(crate) sweep: Sweep,
    /// The scenarios, by name or path; all built-in ones unless given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,
    /// Play every run twice, in different threads, and compare everything that happens
    #[arg(long)]
    pub(crate) verify: bool,
    /// Where the report, and a history and a picture of each kind of incident go
    #[arg(long, value_name = "DIR", default_value = "fencepost-report")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fencepost check
  fencepost check gc-pause slow-work --algorithms fenced
  fencepost check my-scenario.toml --seeds 500 --junit results.xml")]
pub(crate) struct Check {
    /// The scenarios, by name or path; all built-in ones unless given
    pub(crate) scenarios: Vec<String>,
    #[command(flatten)]
    pub(crate) sweep: Sweep,
    /// Write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fencepost serve
  fencepost serve --port 0
  redis-cli SET lock me NX PX 30000

The address is printed on stdout. Keys expire by this machine's clock; nothing is kept. There is no
password: bind it to another address only where you trust everybody.")]
pub(crate) struct Serve {
    /// The port; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 6379)]
    pub(crate) port: u16,
    /// The address of this machine to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind: IpAddr,
    /// How many clients may be connected at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_clients: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    pub(crate) algorithm: String,
    pub(crate) scenario: String,
    #[arg(long, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) engine: Engine,
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
}

/// What `matrix` and `check` play.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    /// How many seeds each cell is played with, from 0 on
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The algorithms; all of them unless given
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) algorithms: Vec<String>,
    /// How many runs are played at the same time; as many as there are cores unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    #[command(flatten)]
    pub(crate) engine: Engine,
}

/// What plays the worlds.
#[derive(Debug, Args)]
pub(crate) struct Engine {
    /// What plays the worlds
    #[arg(long = "engine", value_name = "NAME", default_value = "event")]
    pub(crate) name: String,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("it must be a key and a value, as in ttl=10s".to_owned()),
    }
}
