//! The command line: one verb, one file.

mod arguments;
mod check;
mod list;
mod matrix;
mod output;
mod pick;
mod run;
mod serve;
mod sweep;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Verb};

// A run allocates small things all the time; this allocator takes a tenth off it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How a command ended, beside with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As expected.
    Done,
    /// Something was found that the command is there to find.
    Found,
    /// A run did not come out the same when it was played again.
    NotReproduced,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() {
                ExitCode::from(1)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    sim::engine::quiet_panics();
    let outcome = match arguments.verb {
        Verb::List(arguments) => list::list(&arguments),
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Matrix(arguments) => matrix::matrix(&arguments),
        Verb::Check(arguments) => check::check(&arguments),
        Verb::Serve(arguments) => serve::serve(&arguments),
        Verb::Trace(arguments) => trace::trace(&arguments),
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Found) => ExitCode::from(2),
        Ok(Outcome::NotReproduced) => ExitCode::from(3),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(1)
        }
    }
}
