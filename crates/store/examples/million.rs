//! A long record: millions of calls through the Store port with the index on, in one data folder that grows from size to
//! size. Prints what a call costs behind its answer, what readers wait for, and how each figure grows.
//!
//! `cargo xtask soak million` runs it. Arguments: the sizes, for example `10000 100000`; before them `--max-mb N`, the
//! budget of the folder, and `--dir PATH`, a folder that is kept. `--short N` measures N processes of one call instead.

#[path = "million/figures.rs"]
mod figures;
#[path = "million/load.rs"]
mod load;
#[path = "million/measure.rs"]
mod measure;
#[path = "million/short.rs"]
mod short;

use std::{error::Error, path::PathBuf};

use figures::Table;
use load::Load;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// More than this folder will ever need, unless a budget is given.
const UNBOUNDED_MB: u64 = 1 << 20;

struct Options {
    max_mb: u64,
    dir: Option<PathBuf>,
    short: Option<u64>,
    sizes: Vec<u64>,
}

fn options() -> Outcome<Options> {
    let mut options = Options {
        max_mb: UNBOUNDED_MB,
        dir: None,
        short: None,
        sizes: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("an option without its value");
        match &*argument {
            "--max-mb" => options.max_mb = value()?.parse()?,
            "--dir" => options.dir = Some(value()?.into()),
            "--short" => options.short = Some(value()?.parse()?),
            size => options.sizes.push(size.parse()?),
        }
    }
    if options.sizes.is_empty() {
        options.sizes = vec![10_000, 100_000];
    }
    options.sizes.sort_unstable();
    Ok(options)
}

fn main() -> Outcome {
    let options = options()?;
    let scratch = tempfile::tempdir()?;
    let dir = options.dir.unwrap_or_else(|| scratch.path().to_owned());
    if let Some(count) = options.short {
        return short::run(&dir, count);
    }
    let mut load = Load::start(&dir, options.max_mb)?;
    let mut table = Table::default();
    for size in options.sizes {
        load.grow_to(size)?;
        table.add(size, measure::all(&mut load)?);
    }
    print!("{table}");
    load.print_disk();
    load.check()?;
    table.check()
}
