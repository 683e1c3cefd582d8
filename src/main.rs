use std::process::ExitCode;

use clap::Parser;
use layercake::cli::{self, Cli};

fn main() -> ExitCode {
    cli::start_logging();
    match cli::dispatch(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `layercake ... | head` is no failure: who reads has had enough.
            if error.is_broken_pipe() {
                return ExitCode::SUCCESS;
            }
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
