//! Repository automation: `cargo xtask <command>`. Knows the repository, refuses to know the broker.

mod steps;
mod suites;
mod tidy;

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

const HELP: &str = "\
cargo xtask COMMAND

  tidy               check the house rules (layers, sizes, documents, ...)
  tidy --tighten     the same, and lower the numbers in xtask/ratchet.txt to what they are now
  tidy --circles     the files of import circles that are too large
  config-reference   write docs/configuration.md and packaging/rabbitmq.conf from the table of configuration keys
  sim                histories of the broker's core on a simulated disk, from seed 1 on until one fails:
                     --minutes N, --seeds N (default: one seed), --seed S (the first), --tell (say what happens),
                     --kind 0 (random work), 1 (tenants), 2 (queues used before they are declared), 3 (little memory)
                     or 4 (a full disk)
  suites             the suites that look at Warren from outside: `cargo xtask suites --help`
  test               everything that CI runs, in order, with the time each step took
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<()> {
    let root = root()?;
    match arguments {
        ["tidy"] => tidy::check(&root),
        ["tidy", "--tighten"] => tidy::tighten(&root),
        ["tidy", "--circles"] => tidy::circles(&root),
        ["config-reference"] => config_reference(),
        ["sim", rest @ ..] => simulate(rest),
        ["suites", rest @ ..] => suites::run(&root, rest),
        ["watch-suites", mark, folder] => {
            suites::watch(mark, folder);
            Ok(())
        }
        ["test"] => steps::test(&root),
        [] | ["help" | "--help" | "-h"] => Ok(std::io::stdout().write_all(HELP.as_bytes())?),
        other => bail!("unknown command `{}`; `cargo xtask help` lists them", other.join(" ")),
    }
}

/// The repository's root, and the working directory from here on. Cargo says at run time which checkout called; the
/// one this was compiled in may be another if they share a target folder.
fn root() -> Result<PathBuf> {
    let xtask = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let root = PathBuf::from(xtask).join("..").canonicalize().context("no repository above xtask")?;
    std::env::set_current_dir(&root)?;
    Ok(root)
}

/// Runs the simulator, with its debug assertions.
fn simulate(arguments: &[&str]) -> Result<()> {
    let mut run = Command::new(env!("CARGO"));
    run.args(["run", "--quiet", "--package", "sim", "--"]).args(arguments);
    if run.status()?.success() { Ok(()) } else { bail!("a history fails") }
}

/// Has the binary print its own reference and its own file of defaults: xtask does not link the broker.
fn config_reference() -> Result<()> {
    std::fs::write("docs/configuration.md", config_text("--markdown")?)?;
    Ok(std::fs::write("packaging/rabbitmq.conf", config_text("--template")?)?)
}

fn config_text(form: &str) -> Result<Vec<u8>> {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "warren", "--", "config", form])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("`warren config {form}` failed");
    }
    Ok(output.stdout)
}
