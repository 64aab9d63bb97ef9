//! RabbitMQ's environment variables (`RABBITMQ_...`): which files they name, what they set, and which of them do nothing here. A
//! container that was made for RabbitMQ's image says all it has to say with them.
//!
//! Refuses to know the process's environment: a lookup is passed in. Seen with RabbitMQ 4.3.6: an empty variable counts as unset;
//! the first user, its password and vhost win over the files; listeners of the files win over the port.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use stdx::Secret;

use crate::config::{ClusterOptions, ConfigError, Listener, Options, Switch, nearest_of};
use crate::logging::LogFilter;

/// Names the main configuration file, with or without `.conf`.
pub(crate) const CONFIG_FILE: &str = "RABBITMQ_CONFIG_FILE";
/// Names the folder, or the pattern, of further configuration files.
pub(crate) const CONFIG_FILES: &str = "RABBITMQ_CONFIG_FILES";
const DEFAULT_USER: &str = "RABBITMQ_DEFAULT_USER";
const DEFAULT_PASS: &str = "RABBITMQ_DEFAULT_PASS";
const DEFAULT_VHOST: &str = "RABBITMQ_DEFAULT_VHOST";
const NODE_PORT: &str = "RABBITMQ_NODE_PORT";
const NODE_ADDRESS: &str = "RABBITMQ_NODE_IP_ADDRESS";
const COOKIE: &str = "RABBITMQ_ERLANG_COOKIE";
const LONG_NAMES: &str = "RABBITMQ_USE_LONGNAME";
const CLUSTER_PORT: &str = "RABBITMQ_DIST_PORT";
const LOG: &str = "RABBITMQ_LOG";
const LOGS: &str = "RABBITMQ_LOGS";

/// All that have an effect.
const KNOWN: &[&str] = &[
    CONFIG_FILE,
    CONFIG_FILES,
    DEFAULT_USER,
    DEFAULT_PASS,
    DEFAULT_VHOST,
    NODE_PORT,
    NODE_ADDRESS,
    COOKIE,
    LONG_NAMES,
    CLUSTER_PORT,
    LOG,
    LOGS,
    crate::names::NODE_VARIABLE,
    crate::pid_file::VARIABLE,
];

/// Advice for variables that do nothing: how their names begin, and the advice. The first that fits counts.
const INSTEAD: &[(&str, &str)] = &[
    (
        "RABBITMQ_DEFAULT_USER_FILE",
        "write the name in RABBITMQ_DEFAULT_USER, or in default_user of the configuration file",
    ),
    (
        "RABBITMQ_DEFAULT_PASS_FILE",
        "write the password in RABBITMQ_DEFAULT_PASS, or in default_pass of the configuration file",
    ),
    ("RABBITMQ_DEFAULT_USER_TAGS", "use default_user_tags in the configuration file"),
    ("RABBITMQ_MNESIA_", "the data is where --data-dir or WARREN_DATA_DIR says"),
    ("RABBITMQ_QUORUM_DIR", "the data is where --data-dir or WARREN_DATA_DIR says"),
    ("RABBITMQ_STREAM_DIR", "the data is where --data-dir or WARREN_DATA_DIR says"),
    ("RABBITMQ_LOG_BASE", "use RABBITMQ_LOGS, or log.dir in the configuration file"),
    ("RABBITMQ_ENABLED_PLUGINS", "what Warren has of plugins is built in"),
    ("RABBITMQ_PLUGINS_", "what Warren has of plugins is built in"),
    ("RABBITMQ_FEATURE_FLAGS", "Warren has no feature flags"),
    ("RABBITMQ_ADVANCED_CONFIG_FILE", "Warren reads no Erlang terms; use the configuration file"),
    ("RABBITMQ_CONF_ENV_FILE", "set the variables themselves"),
    ("RABBITMQ_SSL_", "use the keys ssl_options.* in the configuration file"),
    ("RABBITMQ_MANAGEMENT_", "use the keys management.* in the configuration file"),
    ("RABBITMQ_VM_MEMORY_HIGH_WATERMARK", "use vm_memory_high_watermark in the configuration file"),
    ("RABBITMQ_DISK_FREE_", "use disk_free_limit in the configuration file"),
    ("RABBITMQ_SERVER_", "it concerns Erlang"),
    ("RABBITMQ_CTL_ERL_ARGS", "it concerns Erlang"),
    ("RABBITMQ_IO_THREAD_POOL_SIZE", "it concerns Erlang"),
    ("RABBITMQ_MAX_NUMBER_OF_", "it concerns Erlang"),
];

/// The value of a variable, if it is set and not empty.
fn value(env: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.is_empty())
}

/// The main file of [`CONFIG_FILE`]. One that is not there is no mistake, as in RabbitMQ, and gives a notice.
pub(crate) fn main_file(env: &dyn Fn(&str) -> Option<String>, notices: &mut Vec<String>) -> Option<PathBuf> {
    let named = PathBuf::from(value(env, CONFIG_FILE)?);
    let mut with_extension = named.clone().into_os_string();
    with_extension.push(".conf");
    let found = [named.clone(), with_extension.into()].into_iter().find(|path| path.is_file());
    if found.is_none() {
        notices.push(format!("{CONFIG_FILE}={} is not there and has no effect", named.display()));
    }
    found
}

/// The further files of [`CONFIG_FILES`] in order of their names: those of a folder, those that fit a pattern like `/etc/x/*.conf`,
/// or one file. Nothing there gives a notice. `None` when the variable is not set.
///
/// # Errors
/// A folder that cannot be read.
pub(crate) fn further_files(
    env: &dyn Fn(&str) -> Option<String>,
    notices: &mut Vec<String>,
) -> Result<Option<Vec<PathBuf>>, ConfigError> {
    let Some(named) = value(env, CONFIG_FILES).map(PathBuf::from) else { return Ok(None) };
    let pattern = named.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('*'));
    let files = match pattern {
        _ if named.is_file() => vec![named.clone()],
        _ if named.is_dir() => files_of(&named, "", ".conf")?,
        Some((begin, end)) => {
            let folder = named.parent().unwrap_or(Path::new("."));
            if folder.is_dir() { files_of(folder, begin, end)? } else { Vec::new() }
        }
        None => Vec::new(),
    };
    if files.is_empty() {
        notices.push(format!("{CONFIG_FILES}={} names no file and has no effect", named.display()));
    }
    Ok(Some(files))
}

/// The files of a folder whose names begin and end so, in order of their names.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn files_of(folder: &Path, begin: &str, end: &str) -> Result<Vec<PathBuf>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let fits = name.to_str().is_some_and(|name| {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        });
        if fits && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Sets what the variables say, on top of the files. `base` is what the files were read on top of.
///
/// # Errors
/// A value that does not fit, with its variable.
pub(crate) fn apply(
    env: &dyn Fn(&str) -> Option<String>,
    options: &mut Options,
    base: &Options,
) -> Result<(), ConfigError> {
    let wrong = |name, reason| ConfigError::Variable { name, reason };
    let access = &mut options.access;
    if let Some(name) = value(env, DEFAULT_VHOST) {
        access.default_vhost = name;
    }
    let (user, password) = (value(env, DEFAULT_USER), value(env, DEFAULT_PASS));
    access.first_login_by_variables = user.is_some() || password.is_some();
    if let Some(name) = user {
        access.default_user = name;
    }
    if let Some(password) = password {
        access.default_pass = Secret::new(&password);
    }
    let (port, address) = (value(env, NODE_PORT), value(env, NODE_ADDRESS));
    if port.is_some() || address.is_some() {
        let port = port.map_or(Ok(5672), |port| {
            port.parse::<u16>().map_err(|_| wrong(NODE_PORT, "expected a port, 0 to 65535".into()))
        })?;
        let address = address.filter(|address| address != "auto").map(|address| {
            address
                .parse::<IpAddr>()
                .map_err(|_| wrong(NODE_ADDRESS, "expected an IP address, or auto".into()))
        });
        let listener = match address.transpose()? {
            Some(address) => Listener::At(SocketAddr::new(address, port)),
            None => Listener::Everywhere(port),
        };
        if options.network.listeners == base.network.listeners {
            options.network.listeners = vec![listener];
        } else {
            options.notices.push(format!("{NODE_PORT} and {NODE_ADDRESS} have no effect: listeners.tcp of the configuration file counts"));
        }
    }
    apply_cluster(env, &mut options.cluster)?;
    if let Some(text) = value(env, LOG) {
        let (levels, others): (Vec<&str>, Vec<&str>) =
            text.split(',').map(str::trim).partition(|part| LogFilter::level(part).is_ok());
        match levels.last() {
            Some(level) => {
                options.log.console.filter = LogFilter::level(level).map_err(|reason| wrong(LOG, reason))?;
            }
            None if others.iter().any(|part| part.contains('=') || part.ends_with("color")) => {}
            None => return Err(wrong(LOG, "expected a level: debug, info, warning, error or none".into())),
        }
        if !others.is_empty() {
            options
                .notices
                .push(format!("{LOG}: {} has no effect, only one level for all lines has", others.join(",")));
        }
    }
    match value(env, LOGS).as_deref() {
        None => {}
        Some("-") => (options.log.console.switch, options.log.file.refused) = (Switch::On, true),
        Some(path) => (options.log.file.name, options.log.file.refused) = (Some(path.into()), false),
    }
    Ok(())
}

/// The variables about a node of a cluster.
fn apply_cluster(
    env: &dyn Fn(&str) -> Option<String>,
    cluster: &mut ClusterOptions,
) -> Result<(), ConfigError> {
    if let Some(name) = value(env, crate::names::NODE_VARIABLE) {
        cluster.node = Some(name);
    }
    if let Some(is_long) = value(env, LONG_NAMES) {
        cluster.long_names = (is_long == "true").into();
    }
    if let Some(cookie) = value(env, COOKIE) {
        cluster.cookie = Some(Secret::new(cookie));
    }
    if let Some(port) = value(env, CLUSTER_PORT) {
        let wrong =
            |_| ConfigError::Variable { name: CLUSTER_PORT, reason: "expected a port, 0 to 65535".into() };
        cluster.port = port.parse().map_err(wrong)?;
    }
    Ok(())
}

/// A notice for each variable of RabbitMQ's that is set and does nothing. `used` are names that were looked up. Variables that
/// Kubernetes makes for services, and those of the load generator, are nobody's mistake.
pub(crate) fn without_effect(names: impl Iterator<Item = String>, used: &HashSet<String>) -> Vec<String> {
    let is_ours = |name: &str| {
        name.starts_with("RABBITMQ_")
            && !is_of_service(name, "RABBITMQ")
            && !name.starts_with("RABBITMQ_PERF_TEST_")
    };
    let idle = names.filter(|name| is_ours(name) && !KNOWN.contains(&name.as_str()) && !used.contains(name));
    let mut notices: Vec<String> = idle
        .map(|name| {
            let instead = INSTEAD.iter().find(|(begin, _)| name.starts_with(begin));
            let near = nearest_of(&name, 2, KNOWN.iter().copied());
            match (instead, near) {
                (Some((_, advice)), _) => format!("environment variable {name} has no effect: {advice}"),
                (None, Some(near)) => {
                    format!("environment variable {name} has no effect; did you mean {near}?")
                }
                (None, None) => format!("environment variable {name} has no effect"),
            }
        })
        .collect();
    notices.sort();
    notices
}

/// Whether Kubernetes makes a variable of this name for a service called `service`.
pub(crate) fn is_of_service(name: &str, service: &str) -> bool {
    let rest = name.strip_prefix(service).unwrap_or("");
    rest == "_PORT" || rest.starts_with("_SERVICE_") || rest.starts_with("_PORT_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Result<Options, ConfigError> {
        let pairs: Vec<(String, String)> = pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        let env = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let mut options = Options::default();
        apply(&env, &mut options, &Options::default()).map(|()| options)
    }

    #[test]
    fn the_first_user_and_vhost_come_from_variables() {
        let options =
            set(&[(DEFAULT_USER, "shop"), (DEFAULT_PASS, "hare"), (DEFAULT_VHOST, "orders")]).unwrap();
        assert_eq!(options.access.default_user, "shop");
        assert_eq!(options.access.default_pass.expose(), "hare");
        assert_eq!(options.access.default_vhost, "orders");
        assert!(options.access.first_login_by_variables);
        assert_eq!(set(&[(DEFAULT_USER, "")]).unwrap(), Options::default(), "empty is not set");
    }

    #[test]
    fn a_node_among_others_is_told_its_name_its_port_and_its_secret() {
        let variables = [
            (crate::names::NODE_VARIABLE, "rabbit@mq1"),
            (COOKIE, "topsecret"),
            (LONG_NAMES, "true"),
            (CLUSTER_PORT, "7"),
        ];
        let cluster = set(&variables).unwrap().cluster;
        assert_eq!((cluster.node.as_deref(), cluster.port), (Some("rabbit@mq1"), 7));
        assert_eq!(
            (cluster.cookie.as_ref().map(Secret::expose), cluster.long_names),
            (Some("topsecret"), Switch::On)
        );
        assert!(!cluster.is_wanted() && !format!("{cluster:?}").contains("topsecret"));
        assert!(set(&[(CLUSTER_PORT, "x")]).is_err());
    }

    #[test]
    fn the_port_counts_unless_the_files_have_listeners() {
        let listeners = |pairs: &[(&str, &str)]| set(pairs).unwrap().network.listeners;
        assert_eq!(listeners(&[(NODE_PORT, "5673")]), [Listener::Everywhere(5673)]);
        assert_eq!(listeners(&[(NODE_ADDRESS, "auto")]), [Listener::Everywhere(5672)]);
        assert_eq!(
            listeners(&[(NODE_PORT, "1"), (NODE_ADDRESS, "::1")]),
            [Listener::At("[::1]:1".parse().unwrap())]
        );
        let mut options = Options::default();
        options.network.listeners = vec![Listener::Everywhere(7)];
        let env = |name: &str| (name == NODE_PORT).then(|| "5673".to_owned());
        apply(&env, &mut options, &Options::default()).unwrap();
        assert_eq!(options.network.listeners, [Listener::Everywhere(7)]);
        assert!(options.notices[0].contains("listeners.tcp of the configuration file counts"));
        for (name, value) in [(NODE_PORT, "70000"), (NODE_ADDRESS, "localhost"), (LOG, "inof")] {
            let error = set(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("environment variable {name}: expected ")), "{error}");
        }
    }

    #[test]
    fn the_log_goes_where_the_variables_say() {
        let options = set(&[(LOG, "connection=debug,warning,+color"), (LOGS, "/var/log/x.log")]).unwrap();
        assert_eq!(options.log.console.filter.as_str(), "warn");
        assert_eq!(options.log.file.path(), Some("/var/log/x.log".into()));
        assert!(
            options.notices[0].contains("connection=debug,+color has no effect"),
            "{:?}",
            options.notices
        );
        let options = set(&[(LOGS, "-"), (LOG, "+color")]).unwrap();
        assert_eq!((options.log.console.switch, options.log.file.path()), (Switch::On, None));
    }

    #[test]
    fn files_are_found_by_name_without_extension_folder_and_pattern() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["r.conf", "20-b.conf", "10-a.conf", "x.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let at = |name: &str| folder.path().join(name);
        let env = |path: PathBuf| move |_: &str| Some(path.display().to_string());
        let mut notices = Vec::new();
        assert_eq!(main_file(&env(at("r")), &mut notices), Some(at("r.conf")));
        assert_eq!(main_file(&env(at("r.conf")), &mut notices), Some(at("r.conf")));
        assert_eq!(notices, [""; 0]);
        assert_eq!(main_file(&env(at("q.conf")), &mut notices), None);
        assert!(notices[0].contains("q.conf is not there and has no effect"));

        let mut further = |path: PathBuf| further_files(&env(path), &mut notices).unwrap().unwrap();
        assert_eq!(further(folder.path().into()), [at("10-a.conf"), at("20-b.conf"), at("r.conf")]);
        assert_eq!(further(at("*-*.conf")), [] as [PathBuf; 0], "one star only");
        assert_eq!(further(at("2*.conf")), [at("20-b.conf")]);
        assert_eq!(further(at("x.txt")), [at("x.txt")]);
        assert_eq!(further(at("none/*.conf")), [] as [PathBuf; 0]);
        assert!(notices.last().unwrap().contains("names no file and has no effect"));
    }

    #[test]
    fn a_variable_without_effect_is_named_with_what_to_use_instead() {
        let names = |names: &[&str], used: &[&str]| {
            let used = used.iter().map(|&name| name.to_owned()).collect();
            without_effect(names.iter().map(|&name| name.to_owned()), &used)
        };
        assert_eq!(names(KNOWN, &[]), [""; 0]);
        let others =
            ["PATH", "RABBITMQ_SECRET", "RABBITMQ_PORT", "RABBITMQ_SERVICE_HOST", "RABBITMQ_PORT_5672_TCP"];
        assert_eq!(names(&others, &["RABBITMQ_SECRET"]), [""; 0]);
        assert_eq!(
            names(
                &[
                    "RABBITMQ_SERVER_ERL_ARGS",
                    "RABBITMQ_DEFAULT_USR",
                    "RABBITMQ_WHATEVER",
                    "RABBITMQ_DEFAULT_PASS_FILE"
                ],
                &[]
            ),
            [
                "environment variable RABBITMQ_DEFAULT_PASS_FILE has no effect: write the password in RABBITMQ_DEFAULT_PASS, or in \
                 default_pass of the configuration file",
                "environment variable RABBITMQ_DEFAULT_USR has no effect; did you mean RABBITMQ_DEFAULT_USER?",
                "environment variable RABBITMQ_SERVER_ERL_ARGS has no effect: it concerns Erlang",
                "environment variable RABBITMQ_WHATEVER has no effect",
            ]
        );
    }
}
