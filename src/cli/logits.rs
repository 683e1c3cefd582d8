//! `layercake logits`: the logits of given token ids, as raw numbers.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::cli::CliError;
use crate::cli::args::{DeviceArgs, ModelArgs, parse_ids};
use crate::cli::client::{Client, Interrupts};
use crate::engine::protocol::{Command, Event, LogitRows, StopReason};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    /// Token ids, e.g. 1,2,3
    #[arg(long)]
    ids: String,
    /// File to write: little-endian f32, one row of n_vocab values for each position
    #[arg(long)]
    out: PathBuf,
    /// Only the last position
    #[arg(long)]
    last: bool,
}

pub fn logits(args: Args) -> Result<(), CliError> {
    let interrupts = Interrupts::install()?;
    let ids = parse_ids(&args.ids).map_err(CliError::Usage)?;
    let options = args.model.load_options()?;
    let mut client = Client::start(&args.devices)?;
    client.load(options)?;

    let shown = args.out.display();
    let create = |e| CliError::failed(format!("cannot write {shown}: {e}"));
    let mut out = BufWriter::new(std::fs::File::create(&args.out).map_err(create)?);
    let which = if args.last { LogitRows::Last } else { LogitRows::All };
    let id = client.new_id();
    interrupts.watch(client.commands());
    let (mut n_rows, mut width, mut written, mut stopped) = (0, 0, Ok(()), false);
    client.call(Command::Logits { id, ids, which }, |event| match event {
        Event::Logits { n_vocab, logits, .. } if written.is_ok() => {
            width = n_vocab;
            n_rows += logits.len() / n_vocab.max(1) as usize;
            written = logits.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()));
        }
        Event::Finished { summary, .. } => stopped = summary.stop == StopReason::Stopped,
        _ => {}
    })?;
    written.and_then(|()| out.flush()).map_err(create)?;
    if stopped {
        return Err(CliError::failed(format!("interrupted; {shown} holds the first {n_rows} rows")));
    }
    eprintln!("{n_rows} rows of {width} logits in {shown}");
    Ok(())
}
