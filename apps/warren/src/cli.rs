//! The command line of the one binary: which tool is called, and the server's flags and environment variables.
//!
//! Refuses to know what the tools do. Precedence of every server setting: flag, environment variable, file, default.

use crate::config::{self, ConfigError, Listener, ManagementListener, Options};
use crate::ctl::{self, Called};
use crate::logging::{LogFilter, LogFormat};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;

/// Which tool to run, with its arguments.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Run the broker.
    Server(ServerArgs),
    /// Talk to a running broker, with these arguments as `rabbitmqctl` takes them.
    Ctl(Called, Vec<OsString>),
    /// Generate load, with these arguments.
    Perf(Vec<OsString>),
    /// Run or compare benchmarks, with these arguments.
    Bench(Vec<OsString>),
    /// Run the broker that routes and stores nothing, with these arguments: the floor of benchmarks.
    NullBroker(Vec<OsString>),
    /// Print or check configuration.
    Config(ConfigArgs),
    /// Look at a data directory that no server has open.
    Diag(DiagArgs),
}

#[derive(Parser)]
#[command(
    name = "warren",
    version,
    about = "A message broker for applications that were written for RabbitMQ",
    after_help = "Start a broker with built-in defaults:  warren server\n\
                  Called as `rabbitmqctl`, `rabbitmq-diagnostics`, `-queues`, `-upgrade`, `-plugins` or `-streams`, this program behaves as \
                  `warren ctl`.",
    arg_required_else_help = true,
    propagate_version = true
)]
struct Cli {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Run the broker
    Server(ServerArgs),
    /// Manage a running broker: the commands of rabbitmqctl
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Ctl(Rest),
    /// List the plugins of RabbitMQ that are built in: the commands of rabbitmq-plugins
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Plugins(Rest),
    /// Generate load and measure
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Perf(Rest),
    /// Run the benchmark suite against Warren and its peers, and compare results
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Bench(Rest),
    /// Run a broker that routes and stores nothing: the floor of benchmarks
    #[command(disable_help_flag = true, disable_version_flag = true)]
    NullBroker(Rest),
    /// List every configuration key, or check a file
    Config(ConfigArgs),
    /// List, check or salvage a data directory while no server runs on it
    Diag(DiagArgs),
}

/// Arguments that another parser reads.
#[derive(Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    rest: Vec<OsString>,
}

/// Flags of `warren server`; `None` or empty where neither flag nor environment variable is given.
#[derive(Args, Debug, Clone, PartialEq, Default)]
pub struct ServerArgs {
    /// Configuration file in rabbitmq.conf syntax [default: none]
    #[arg(long, value_name = "FILE", env = "WARREN_CONFIG")]
    pub config: Option<PathBuf>,
    /// Folder for all data [default: ./warren-data]
    #[arg(long, value_name = "DIR", env = "WARREN_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address for AMQP clients, repeatable; a port alone means all interfaces [default: 127.0.0.1:5672]
    #[arg(long, value_name = "ADDR:PORT", env = "WARREN_LISTEN", value_delimiter = ',')]
    pub listen: Vec<Listener>,
    /// Address of the HTTP API; a port alone means all interfaces, `none` switches the API off [default: 127.0.0.1:15672]
    #[arg(long, value_name = "ADDR:PORT", env = "WARREN_MANAGEMENT_LISTEN")]
    pub management_listen: Option<ManagementListener>,
    /// Least important log lines to show: debug, info, warning, error, none; or e.g. info,net=debug
    #[arg(long, value_name = "LEVEL", env = "WARREN_LOG", value_parser = LogFilter::directives)]
    pub log: Option<LogFilter>,
    /// Shape of log lines [default: human]
    #[arg(long, value_name = "FORMAT", env = "WARREN_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Flags of `warren config`.
#[derive(Args, Debug, Clone, PartialEq, Default)]
pub struct ConfigArgs {
    /// Read this file and report its problems; start nothing
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Print the list of keys as Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Print a configuration file with every key in a comment, to start from
    #[arg(long, conflicts_with_all = ["check", "markdown"])]
    pub template: bool,
}

/// Flags of `warren diag`.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct DiagArgs {
    /// The data directory
    #[arg(value_name = "DIR", required = true)]
    pub dir: Option<PathBuf>,
    /// Read every checksum; exit with 1 when something is wrong
    #[arg(long)]
    pub verify: bool,
    /// What else to do than to list.
    #[command(subcommand)]
    pub action: Option<DiagAction>,
}

/// What `warren diag` can do beside listing.
#[derive(Subcommand, Debug, Clone, PartialEq)]
pub enum DiagAction {
    /// Write a clean data directory from everything that can be read
    Salvage {
        /// The damaged data directory; it is not changed
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// The folder to write, new or empty
        #[arg(long, value_name = "NEWDIR")]
        to: PathBuf,
    },
    /// Print the records of one file: of log/, meta/ or segments/, snapshots (.snap) too
    Dump {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Records to print at most
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: u64,
    },
}

/// Reads a command line, the program's name first. Called as `rabbitmqctl` or `rabbitmq-diagnostics`
/// everything after the name goes to `ctl`.
///
/// # Errors
/// clap's error: a text with a hint, or the text of `--help` or `--version`; `exit()` on it prints to the right stream
/// and ends the process with the right code.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(called) = arguments.first().and_then(|program| Called::from_program(program)) {
        return Ok(Command::Ctl(called, arguments[1..].to_vec()));
    }
    Ok(match Cli::try_parse_from(arguments)?.tool {
        Tool::Server(args) => Command::Server(args),
        Tool::Ctl(Rest { rest }) => Command::Ctl(Called::Warren, rest),
        Tool::Plugins(Rest { rest }) => Command::Ctl(Called::RabbitmqPlugins, rest),
        Tool::Perf(Rest { rest }) => Command::Perf(rest),
        Tool::Bench(Rest { rest }) => Command::Bench(rest),
        Tool::NullBroker(Rest { rest }) => Command::NullBroker(rest),
        Tool::Config(args) => Command::Config(args),
        Tool::Diag(args) => Command::Diag(args),
    })
}

impl ServerArgs {
    /// A notice for each name of an environment variable that looks like ours and is none. `used` are names that the
    /// configuration file asks for.
    pub fn unknown_variables(names: impl Iterator<Item = String>, used: &HashSet<String>) -> Vec<String> {
        let command = Cli::command();
        let flags = command.find_subcommand("server").into_iter().flat_map(clap::Command::get_arguments);
        let known: Vec<&str> =
            flags.filter_map(|flag| flag.get_env()?.to_str()).chain([ctl::URL_VARIABLE]).collect();
        let unknown = names.filter(|name| {
            name.starts_with("WARREN_") && !known.contains(&name.as_str()) && !used.contains(name)
        });
        unknown
            .map(|name| match config::nearest_of(&name, (name.chars().count() / 3).max(2), known.iter().copied()) {
                Some(nearest) => {
                    format!(
                        "environment variable {name} is not known and has no effect; did you mean {nearest}?"
                    )
                }
                None => format!("environment variable {name} is not known and has no effect"),
            })
            .collect()
    }

    /// The server's options: defaults, then the file, then environment and flags. `env` looks up environment variables
    /// for `$(NAME)` in the file.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn options(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Options, ConfigError> {
        let mut options = match &self.config {
            Some(path) => config::load(path, env)?,
            None => Options::default(),
        };
        if let Some(data_dir) = &self.data_dir {
            options.node.data_dir.clone_from(data_dir);
        }
        if !self.listen.is_empty() {
            options.network.listeners.clone_from(&self.listen);
        }
        if let Some(listener) = self.management_listen {
            options.management.listener = listener;
        }
        if let Some(filter) = &self.log {
            options.log.console.filter = filter.clone();
        }
        if let Some(format) = self.log_format {
            options.log.console.format = format;
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Command, clap::Error> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn server(line: &str) -> ServerArgs {
        match run(line).unwrap() {
            Command::Server(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn os(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn server_flags_are_read() {
        let args = server(
            "warren server --config a.conf --data-dir /d --listen 127.0.0.1:0 --listen 5673 --log info,net=debug \
             --log-format json",
        );
        assert_eq!(args.config, Some(PathBuf::from("a.conf")));
        assert_eq!(args.data_dir, Some(PathBuf::from("/d")));
        assert_eq!(args.listen, ["127.0.0.1:0".parse().unwrap(), Listener::Everywhere(5673)]);
        assert_eq!(args.log.unwrap().as_str(), "info,net=debug");
        assert_eq!(args.log_format, Some(LogFormat::Json));
    }

    #[test]
    fn every_server_flag_has_its_environment_variable() {
        let command = Cli::command();
        let server = command.find_subcommand("server").unwrap();
        for flag in
            server.get_arguments().filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()))
        {
            let name = format!("WARREN_{}", flag.get_id().as_str().to_uppercase());
            assert_eq!(flag.get_env(), Some(OsString::from(name).as_os_str()));
        }
    }

    #[test]
    fn ctl_and_perf_get_their_arguments_untouched() {
        let ctl = run("warren ctl -q list_queues --formatter=json name --help").unwrap();
        assert_eq!(
            ctl,
            Command::Ctl(Called::Warren, os(&["-q", "list_queues", "--formatter=json", "name", "--help"]))
        );
        assert_eq!(run("warren perf --help").unwrap(), Command::Perf(os(&["--help"])));
        assert_eq!(run("warren bench suite --list").unwrap(), Command::Bench(os(&["suite", "--list"])));
        assert_eq!(run("warren ctl --version").unwrap(), Command::Ctl(Called::Warren, os(&["--version"])));
    }

    #[test]
    fn called_as_rabbitmqctl_it_is_ctl() {
        let ctl = run("/usr/sbin/rabbitmqctl -p / list_queues").unwrap();
        assert_eq!(ctl, Command::Ctl(Called::Rabbitmqctl, os(&["-p", "/", "list_queues"])));
        assert_eq!(run("rabbitmqctl").unwrap(), Command::Ctl(Called::Rabbitmqctl, vec![]));
        let diagnostics = run("/usr/bin/rabbitmq-diagnostics ping").unwrap();
        assert_eq!(diagnostics, Command::Ctl(Called::RabbitmqDiagnostics, os(&["ping"])));
    }

    #[test]
    fn mistakes_say_what_to_do() {
        let text = |line: &str| run(line).unwrap_err().to_string();
        assert!(text("warren").contains("Usage"));
        assert!(text("warren servr").contains("server"));
        assert!(text("warren server --listen localhost").contains("expected a port"));
        assert!(text("warren server --log inof").contains("debug, info"));
        assert!(text("warren server --log-format xml").contains("json"));
        assert!(text("warren --version").contains(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rabbitmq.conf");
        std::fs::write(&path, "listeners.tcp.1 = 1\nwarren.data_dir = /file\nlog.console.level = error\n")
            .unwrap();
        let from_file = ServerArgs { config: Some(path), ..ServerArgs::default() };
        let options = from_file.options(&|_| None).unwrap();
        assert_eq!(options.network.listeners, [Listener::Everywhere(1)]);
        assert_eq!(options.node.data_dir, PathBuf::from("/file"));
        assert_eq!(options.network.heartbeat_s, 60);
        let flags = ServerArgs {
            data_dir: Some(PathBuf::from("/flag")),
            listen: vec![Listener::Everywhere(2)],
            log: Some(LogFilter::level("debug").unwrap()),
            log_format: Some(LogFormat::Json),
            ..from_file
        };
        let options = flags.options(&|_| None).unwrap();
        assert_eq!(options.network.listeners, [Listener::Everywhere(2)]);
        assert_eq!(options.node.data_dir, PathBuf::from("/flag"));
        assert_eq!(options.log.console.filter.as_str(), "debug");
        assert_eq!(options.log.console.format, LogFormat::Json);
    }

    #[test]
    fn an_environment_variable_that_looks_like_ours_and_is_none_is_noticed() {
        let notices = |names: &[&str], used: &[&str]| {
            let used = used.iter().map(|&name| name.to_owned()).collect();
            ServerArgs::unknown_variables(names.iter().map(|&name| name.to_owned()), &used)
        };
        assert_eq!(notices(&["PATH", "WARREN_LISTEN", "WARREN_SEED"], &["WARREN_SEED"]), [""; 0]);
        assert_eq!(
            notices(&["WARREN_DATADIR", "WARREN_NOTHING_LIKE_IT"], &[]),
            [
                "environment variable WARREN_DATADIR is not known and has no effect; did you mean WARREN_DATA_DIR?",
                "environment variable WARREN_NOTHING_LIKE_IT is not known and has no effect"
            ]
        );
    }

    #[test]
    fn without_flags_the_server_runs_on_defaults() {
        assert_eq!(ServerArgs::default().options(&|_| None).unwrap(), Options::default());
    }
}
