//! The command line of the one binary: which tool is called, and the server's flags and environment variables.
//!
//! Refuses to know what the tools do. Precedence of every server setting: flag, environment variable, file, default.

use crate::config::{self, ClusterOptions, ConfigError, Listener, ManagementListener, Options};
use crate::ctl::{self, Called};
use crate::environment;
use crate::logging::{LogFilter, LogFormat};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
    /// Folder with rabbitmq.conf, conf.d/*.conf and definitions.json, each read if it is there [default: none]
    #[arg(long, value_name = "DIR", env = "WARREN_CONFIG_DIR")]
    pub config_dir: Option<PathBuf>,
    /// Folder for all data [default: ./warren-data]
    #[arg(long, value_name = "DIR", env = "WARREN_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address for AMQP clients, repeatable; a port alone means all interfaces [default: 127.0.0.1:5672]
    #[arg(long, value_name = "ADDR:PORT", env = "WARREN_LISTEN", value_delimiter = ',')]
    pub listen: Vec<Listener>,
    /// Name of this node, such as rabbit@mq1 [default: warren@localhost, or warren@HOST in a cluster]
    #[arg(long, value_name = "NAME", env = "WARREN_NODE")]
    pub node: Option<String>,
    /// Address for other nodes; a port alone means all interfaces [default: none, or 25672 when there are seeds]
    #[arg(long, value_name = "ADDR:PORT", env = "WARREN_CLUSTER_LISTEN")]
    pub cluster_listen: Option<Listener>,
    /// The address that other nodes dial [default: the host of the node's name, and the port it listens on]
    #[arg(long, value_name = "HOST:PORT", env = "WARREN_CLUSTER_ADVERTISE", value_parser = config::host_and_port)]
    pub cluster_advertise: Option<String>,
    /// Nodes of the cluster to dial, repeatable; this node may be one of them
    #[arg(long, value_name = "HOST:PORT", env = "WARREN_CLUSTER_SEEDS", value_delimiter = ',', value_parser = config::host_and_port)]
    pub cluster_seeds: Vec<String>,
    /// Address of the HTTP API; a port alone means all interfaces, `none` switches the API off [default: 127.0.0.1:15672]
    #[arg(long, value_name = "ADDR:PORT", env = "WARREN_MANAGEMENT_LISTEN")]
    pub management_listen: Option<ManagementListener>,
    /// Listen on all interfaces where nothing says otherwise: AMQP, HTTP API and metrics [default: 127.0.0.1]
    #[arg(long, env = "WARREN_ALL_INTERFACES")]
    pub all_interfaces: bool,
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
    /// The command to run instead of listing.
    #[command(subcommand)]
    pub action: Option<DiagAction>,
}

/// The commands of `warren diag` beside listing.
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
    /// A notice for each name of an environment variable that looks like ours, or is RabbitMQ's, and has no effect. `used` are names
    /// that were looked up, by [`ServerArgs::options`] and for the configuration files.
    pub fn unknown_variables(names: impl Iterator<Item = String>, used: &HashSet<String>) -> Vec<String> {
        let command = Cli::command();
        let flags = command.find_subcommand("server").into_iter().flat_map(clap::Command::get_arguments);
        let known: Vec<&str> =
            flags.filter_map(|flag| flag.get_env()?.to_str()).chain([ctl::URL_VARIABLE]).collect();
        let (ours, others): (Vec<String>, Vec<String>) = names.partition(|name| name.starts_with("WARREN_"));
        let unknown = ours.into_iter().filter(|name| {
            !environment::is_of_service(name, "WARREN")
                && !known.contains(&name.as_str())
                && !used.contains(name)
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
            .chain(environment::without_effect(others.into_iter(), used))
            .collect()
    }

    /// The server's options: defaults, then the files, then RabbitMQ's variables, then Warren's and flags. `env` looks up
    /// environment variables: RabbitMQ's, and those of `$(NAME)` in the files.
    ///
    /// # Errors
    /// A file or a variable is wrong; the error names it.
    pub fn options(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Options, ConfigError> {
        let mut base = Options::default();
        if self.all_interfaces {
            base.network.listeners = vec![Listener::Everywhere(AMQP_PORT)];
            base.management.listener = ManagementListener::EVERYWHERE;
            base.prometheus.address = None;
        }
        let mut notices = Vec::new();
        let files = self.files(env, &mut notices)?;
        let mut options = config::load(&files, base.clone(), env)?;
        options.files.extend(files.iter().cloned());
        notices.append(&mut options.notices);
        options.notices = notices;
        environment::apply(env, &mut options, &base)?;
        let definitions = self.config_dir.as_ref().map(|dir| dir.join("definitions.json"));
        if let Some(file) = definitions.filter(|file| file.is_file())
            && !options.node.imports_definitions()
        {
            options.node.load_definitions = Some(file);
        }
        if let Some(data_dir) = &self.data_dir {
            options.node.data_dir.clone_from(data_dir);
        }
        if !self.listen.is_empty() {
            if options.network.listeners != base.network.listeners {
                options.notices.push(REPLACED.into());
            }
            options.network.listeners.clone_from(&self.listen);
        }
        self.apply_cluster(&mut options.cluster);
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

    fn apply_cluster(&self, cluster: &mut ClusterOptions) {
        if let Some(name) = &self.node {
            cluster.node = Some(name.clone());
        }
        cluster.listen = self.cluster_listen.or(cluster.listen);
        if let Some(address) = &self.cluster_advertise {
            cluster.advertise = Some(address.clone());
        }
        if !self.cluster_seeds.is_empty() {
            cluster.seeds.clone_from(&self.cluster_seeds);
        }
    }

    /// The configuration files, the one that counts most last: the main one, then those of `conf.d`. RabbitMQ's variables name
    /// others than those of the folder.
    fn files(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
        notices: &mut Vec<String>,
    ) -> Result<Vec<PathBuf>, ConfigError> {
        let named = environment::main_file(env, notices);
        let main = match (&self.config, named, &self.config_dir) {
            (Some(file), named, _) => {
                notices.extend(named.map(|named| {
                    format!(
                        "{}={} has no effect: --config or WARREN_CONFIG counts",
                        environment::CONFIG_FILE,
                        named.display()
                    )
                }));
                Some(file.clone())
            }
            (None, Some(named), _) => Some(named),
            (None, None, dir) => {
                dir.as_ref().map(|dir| dir.join("rabbitmq.conf")).filter(|file| file.is_file())
            }
        };
        let further = match (environment::further_files(env, notices)?, &self.config_dir) {
            (Some(files), _) => files,
            (None, Some(dir)) => of_config_dir(dir, notices)?,
            (None, None) => Vec::new(),
        };
        Ok(main.into_iter().chain(further).collect())
    }
}

/// Said when a flag makes other settings void.
const REPLACED: &str = "--listen or WARREN_LISTEN counts: listeners.tcp of the configuration file and RABBITMQ_NODE_PORT have no effect";

/// RabbitMQ's port.
const AMQP_PORT: u16 = 5672;

/// Files that RabbitMQ reads in its folder and Warren does not, because Erlang terms or shell commands stand in them.
const NOT_READ: &[&str] = &["advanced.config", "rabbitmq.config", "rabbitmq-env.conf"];

/// The further files of the configuration folder. A folder that is not there is a mistake.
fn of_config_dir(dir: &Path, notices: &mut Vec<String>) -> Result<Vec<PathBuf>, ConfigError> {
    if let Err(source) = std::fs::read_dir(dir) {
        return Err(ConfigError::Unreadable { path: dir.to_owned(), source });
    }
    for file in NOT_READ.iter().map(|name| dir.join(name)).filter(|file| file.is_file()) {
        notices.push(format!("{} is not read and has no effect; write rabbitmq.conf", file.display()));
    }
    let further = dir.join("conf.d");
    if further.is_dir() { environment::files_of(&further, "", ".conf") } else { Ok(Vec::new()) }
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
    fn a_folder_has_the_file_the_further_files_and_the_definitions() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let args = ServerArgs { config_dir: Some(dir.into()), ..ServerArgs::default() };
        assert_eq!(args.options(&|_| None).unwrap(), Options::default(), "all of it may be missing");
        std::fs::create_dir(dir.join("conf.d")).unwrap();
        for (name, text) in [
            ("rabbitmq.conf", "heartbeat = 1\nframe_max = 9000\ndefault_user = file\n"),
            ("conf.d/20.conf", "heartbeat = 3"),
            ("conf.d/10.conf", "heartbeat = 2\nmax_message_size = 99\n"),
            ("conf.d/30.conf.off", "nothing = 1"),
            ("definitions.json", "{}"),
            ("advanced.config", "[]."),
        ] {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let options = args.options(&|name| (name == "RABBITMQ_DEFAULT_USER").then(|| "shop".into())).unwrap();
        assert_eq!((options.network.heartbeat_s, options.network.frame_size_max), (3, 9000));
        assert_eq!(options.limits.message_bytes_max, 99);
        assert_eq!(options.access.default_user, "shop", "the variable wins over the file");
        assert_eq!(options.node.load_definitions, Some(dir.join("definitions.json")));
        assert_eq!(options.notices.len(), 1, "{:?}", options.notices);
        assert!(options.notices[0].contains("advanced.config is not read"));

        let other = dir.join("other.conf");
        std::fs::write(&other, "frame_max = 10000\nload_definitions = /x.json\n").unwrap();
        let env = |name: &str| (name == "RABBITMQ_CONFIG_FILE").then(|| other.display().to_string());
        let options = args.options(&env).unwrap();
        assert_eq!((options.network.heartbeat_s, options.network.frame_size_max), (3, 10_000));
        assert_eq!(options.node.load_definitions, Some("/x.json".into()));
        let flag = ServerArgs { config: Some(dir.join("conf.d/10.conf")), ..args.clone() };
        let options = flag.options(&env).unwrap();
        assert_eq!(options.network.frame_size_max, Options::default().network.frame_size_max);
        assert!(
            options.notices.iter().any(|it| it.contains("RABBITMQ_CONFIG_FILE=")),
            "{:?}",
            options.notices
        );

        let missing = ServerArgs { config_dir: Some(dir.join("none")), ..ServerArgs::default() };
        assert!(missing.options(&|_| None).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn all_interfaces_are_a_default_and_no_more() {
        let args = server("warren server --all-interfaces");
        let options = args.options(&|_| None).unwrap();
        assert_eq!(options.network.listeners, [Listener::Everywhere(5672)]);
        assert_eq!(options.management.listener, ManagementListener::At { address: None, port: 15_672 });
        assert_eq!(options.prometheus.address, None);
        let port = |name: &str| (name == "RABBITMQ_NODE_PORT").then(|| "1".into());
        assert_eq!(args.options(&port).unwrap().network.listeners, [Listener::Everywhere(1)]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rabbitmq.conf");
        std::fs::write(
            &path,
            "listeners.tcp.1 = 127.0.0.1:1\nmanagement.tcp.ip = 127.0.0.1\nprometheus.tcp.ip = 127.0.0.1\n",
        )
        .unwrap();
        let options = ServerArgs { config: Some(path), ..args }.options(&|_| None).unwrap();
        let local = Options::default();
        assert_eq!(options.network.listeners, ["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(options.management.listener, local.management.listener);
        assert_eq!(options.prometheus.address, local.prometheus.address);
    }

    #[test]
    fn without_flags_the_server_runs_on_defaults() {
        assert_eq!(ServerArgs::default().options(&|_| None).unwrap(), Options::default());
    }
}
