//! `layercake` alone: the choice of a model, or the last session again.

use crate::cli::CliError;
use crate::cli::args::SizeArgs;
use crate::cli::screen::{self, ScreenArgs, Wishes};
use crate::ui::Start;

#[derive(clap::Args)]
pub struct Args {
    /// Go on with the newest session, its model and its placement
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    size: SizeArgs,
    /// Placement, e.g. 'cpu0=embed,0-19; cpu1=20-29,head' [default: auto]
    #[arg(long)]
    place: Option<String>,
    #[command(flatten)]
    screen: ScreenArgs,
}

pub fn start(args: Args) -> Result<(), CliError> {
    if !screen::has_terminal() {
        return Err(CliError::usage("this needs a terminal; `layercake --help` lists the commands that do not"));
    }
    let wishes = Wishes::new(&args.screen, &args.size, args.place.as_deref())?;
    let start = if args.resume { Start::Session(screen::newest_session()?) } else { Start::Picker };
    screen::open(wishes, start)
}
