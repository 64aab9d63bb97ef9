//! The configuration as a whole: files in, options or problems out.

use super::super::options::*;
use super::super::{Key, Problem, ProblemKind, Take, keys};
use super::{load, parse};
use crate::config::Listener;
use broker::{MemoryLimit, UserSeed};
use std::path::PathBuf;

fn no_env(_: &str) -> Option<String> {
    None
}

fn read(text: &str) -> Options {
    parse(text, &no_env).unwrap_or_else(|problems| panic!("{text}\n{problems:?}"))
}

fn problems(text: &str) -> Vec<String> {
    let problems = parse(text, &no_env).expect_err(text);
    problems.into_iter().map(|Problem { line, kind }| format!("{line}: {kind}")).collect()
}

#[test]
fn nothing_configured_gives_the_defaults() {
    assert_eq!(read(""), Options::default());
    assert_eq!(read("# only\n\n   ## comments\n"), Options::default());
}

/// Replaces `$word` in a key's name by something that fits.
fn name_of(key: &Key) -> String {
    match key.name.split_once('$') {
        Some((fixed, _)) => format!("{fixed}1"),
        None => key.name.to_owned(),
    }
}

#[test]
fn each_default_in_the_table_is_the_default_of_the_options() {
    for key in keys::all() {
        if !key.default.is_empty() && !matches!(key.take, Take::List { .. }) {
            let quote = if key.default.contains('\'') { "" } else { "'" };
            let line = format!("{} = {quote}{}{quote}", key.name, key.default);
            assert_eq!(read(&line), Options::default(), "{line}");
        }
    }
}

#[test]
fn each_example_in_the_table_is_accepted_and_sets_its_own_key() {
    for key in keys::all() {
        let fixed = key.name.split('$').next().unwrap();
        let name = key.example.split('=').next().unwrap().trim();
        assert!(name.starts_with(fixed), "{}: {}", key.name, key.example);
        let env = |_: &str| Some("hare".to_owned());
        parse(key.example, &env).unwrap_or_else(|problems| panic!("{}: {problems:?}", key.example));
    }
}

#[test]
fn both_bounds_of_each_number_fit_their_field_and_what_lies_outside_is_refused() {
    for key in keys::all() {
        let (Take::Integer { min, max, .. } | Take::Limit { min, max, .. }) = key.take else { continue };
        let name = name_of(key);
        read(&format!("{name} = {min}"));
        read(&format!("{name} = {max}"));
        if min > 0 {
            problems(&format!("{name} = {}", min - 1));
        }
        if max < u64::MAX {
            problems(&format!("{name} = {}", max + 1));
        }
        problems(&format!("{name} = -1"));
        problems(&format!("{name} = hare"));
    }
}

#[test]
fn the_table_is_complete_and_has_each_name_once() {
    let mut seen = std::collections::HashSet::new();
    for key in keys::all() {
        assert!(seen.insert(key.name), "{} twice", key.name);
        assert!(key.alias.is_none_or(|alias| seen.insert(alias)), "{}", key.name);
        assert!(key.doc.ends_with('.') && key.doc.len() > 20, "{}", key.name);
        assert_eq!(key.name.contains('$'), matches!(key.take, Take::List { .. }), "{}", key.name);
    }
}

#[test]
fn the_file_of_a_typical_installation_is_read() {
    let options = read(
        "## networking\n\
         listeners.tcp.default = 5672\n\
         listeners.tcp.local = ::1:5673\n\
         heartbeat = 30\n\
         frame_max = 128KB\n\
         tcp_listen_options.backlog = 4096\n\
         tcp_listen_options.nodelay = true\n\
         tcp_listen_options.linger.on = true\n\
         tcp_listen_options.linger.timeout = 2\n\
         tcp_listen_options.exit_on_close = false\n\
         # first user\n\
         default_user = shop\n\
         default_pass = 'a # b'\n\
         default_user_tags.monitoring = true\n\
         default_permissions.configure = ^shop\\.\n\
         loopback_users.guest = false\n\
         max_connections = 10000\n\
         consumer_max_per_channel = infinity\n\
         log.console.level = warning\n\
         log.console.formatter = json\n\
         log.file = false\n",
    );
    let listeners: Vec<_> = options.network.listeners.iter().map(ToString::to_string).collect();
    assert_eq!(listeners, ["5672", "[::1]:5673"]);
    assert_eq!(options.network.heartbeat_s, 30);
    assert_eq!(options.network.frame_size_max, 131_072);
    assert_eq!(options.network.tcp.backlog, 4_096);
    assert_eq!(options.access.default_user, "shop");
    assert_eq!(options.access.default_pass.expose(), "a # b");
    assert_eq!(options.access.default_user_tags, ["monitoring"]);
    assert_eq!(options.access.default_permissions.configure, "^shop\\.");
    assert_eq!(options.access.default_permissions.read, ".*");
    assert_eq!(options.access.loopback_users, Vec::<String>::new());
    assert_eq!(options.limits.connections_max, Some(10_000));
    assert_eq!(options.limits.consumers_per_channel_max, None);
    assert_eq!(options.log.console.filter.as_str(), "warn");
    assert_eq!(options.log.file.path(), None);
}

#[test]
fn of_two_lines_for_one_key_the_later_one_wins() {
    assert_eq!(read("heartbeat = 1\nheartbeat = 2").network.heartbeat_s, 2);
    let options = read("listeners.tcp.1 = 1\nlisteners.tcp.1 = 2");
    assert_eq!(options.network.listeners, [Listener::Everywhere(2)]);
}

#[test]
fn a_key_wins_over_its_alias_wherever_it_stands() {
    for text in [
        "channel_max = 1\nmax_channels_per_connection = 2",
        "max_channels_per_connection = 2\nchannel_max = 1",
    ] {
        assert_eq!(read(text).network.channels_per_connection_max, 2, "{text}");
    }
    assert_eq!(read("connection_max = 7").limits.connections_max, Some(7));
}

#[test]
fn a_configured_list_replaces_the_default_and_none_empties_it() {
    assert_eq!(read("auth_mechanisms.1 = PLAIN").access.mechanisms, [Mechanism::Plain]);
    let options = read("auth_mechanisms.2 = PLAIN\nauth_mechanisms.1 = ANONYMOUS");
    assert_eq!(options.access.mechanisms, [Mechanism::Anonymous, Mechanism::Plain]);
    assert_eq!(read("loopback_users.shop = true").access.loopback_users, ["shop"]);
    assert_eq!(
        read("loopback_users = none\nloopback_users.shop = true").access.loopback_users,
        Vec::<String>::new()
    );
    assert_eq!(read("listeners.tcp = none\nlisteners.tcp.1 = 1").network.listeners, []);
    assert_eq!(read("loopback_users.a\\.b = true").access.loopback_users, ["a.b"]);
}

#[test]
fn old_client_patterns_work_unless_they_are_denied() {
    let options = read("deprecated_features.permit.global_qos = false");
    assert_eq!(options.queues.global_qos, Permit::Denied);
    assert_eq!(options.queues.transient_nonexclusive, Permit::Permitted);
}

#[test]
fn a_key_given_twice_is_noticed() {
    let options = read("heartbeat = 5\n\nheartbeat = 6");
    assert_eq!(options.network.heartbeat_s, 6);
    assert_eq!(
        options.notices,
        ["configuration line 1: \"heartbeat\" has no effect, \"heartbeat\" in line 3 counts"]
    );
    assert_eq!(read("listeners.tcp.1 = 1\nlisteners.tcp.2 = 2").notices, [""; 0]);
}

#[test]
fn a_permission_that_is_no_regular_expression_is_refused() {
    let [problem] = &problems("default_permissions.write = [")[..] else { panic!() };
    assert!(
        problem
            .starts_with("1: bad value \"[\" of \"default_permissions.write\": not a regular expression: "),
        "{problem}"
    );
}

#[test]
fn an_environment_variable_is_put_in() {
    let env = |name: &str| (name == "SEED_PASS").then(|| "hare".to_owned());
    let options = parse("default_pass = $(SEED_PASS)", &env).unwrap();
    assert_eq!(options.access.default_pass.expose(), "hare");
}

#[test]
fn every_problem_is_reported_with_its_line_and_what_to_do() {
    let text = "hearbeat = 60\nheartbeat = soon\ncluster_formation.node_cleanup.interval = 5\n\nframe_max\ndefault_queue_type = x-odd\n";
    assert_eq!(
        problems(text),
        [
            "1: unknown key \"hearbeat\"; did you mean \"heartbeat\"?",
            "2: bad value \"soon\" of \"heartbeat\": expected seconds, 0 to 65535",
            "3: unknown key \"cluster_formation.node_cleanup.interval\"; Warren does not have clustering yet: remove or comment \
             out this line",
            "5: expected `key = value`, a comment (#) or a blank line",
            "6: bad value \"x-odd\" of \"default_queue_type\": expected classic or quorum or stream",
        ]
    );
}

#[test]
fn a_secret_never_appears_in_a_problem() {
    let text = problems("default_pass = encrypted:hare").join("");
    assert!(!text.contains("hare"), "{text}");
}

#[test]
fn a_configuration_with_settings_of_parts_that_are_not_there_is_taken() {
    let options = read(
        "collect_statistics_interval = 10000\n\
         management.sample_retention_policies.global.minute = 5\n\
         management.sample_retention_policies.basic.minute = 5\n\
         management.listener.server.idle_timeout = 60000\n\
         sysmon_handler.triggers.process.heap_size = 1\n\
         auth_backends.1 = rabbit_auth_backend_internal\n\
         cluster_partition_handling = autoheal\n\
         log.connection.level = error\n\
         total_memory_available_override_value = 1GB\n\
         management_agent.disable_metrics_collector = true\n",
    );
    assert_eq!(options.alarms.memory_limit(), MemoryLimit::Bytes(600_000_000));
    assert_eq!(options.notices, [""; 0]);
    assert!(options.management.hides_statistics);
    let [problem] = &problems("management.tcp.prot = 15999")[..] else { panic!() };
    assert!(problem.contains("management.tcp.port"), "{problem}");
}

#[test]
fn lines_with_the_same_word_speak_of_one_thing() {
    let options = read(
        "default_users.shop.tags = a, b\n\
         default_users.shop.password = hare\n\
         default_users.other.read = ^x\n\
         default_limits.vhosts.2.max_queues = 5\n\
         default_limits.vhosts.1.max_queues = 6\n\
         default_policies.operator.p.message_ttl = 2m\n\
         default_policies.operator.p.max_length = 3\n\
         default_policies.operator.nothing.vhost_pattern = ^x\n",
    );
    assert!(!format!("{options:?}").contains("hare"));
    let seeds = options.seeds;
    let password = |it: &UserSeed| it.password.as_ref().map(|password| password.expose().to_owned());
    let users: Vec<_> = seeds.users.iter().map(|it| (&*it.name, password(it), it.tags.len())).collect();
    assert_eq!(users, [("shop", Some("hare".to_owned()), 2), ("other", None, 0)]);
    assert_eq!(seeds.users[1].permissions, [".*", ".*", "^x"]);
    let limits: Vec<_> = seeds.limits.iter().map(|it| (&*it.id, it.limits[0])).collect();
    assert_eq!(limits, [("1", ("max-queues", 6)), ("2", ("max-queues", 5))]);
    let [nothing, policy] = &seeds.operator_policies[..] else { panic!("{seeds:?}") };
    assert!(nothing.definition.is_empty());
    assert_eq!(policy.definition, [("message-ttl", 120_000), ("max-length", 3)]);
    let problem =
        problems("default_users.shop.password = encrypted:hare\ndefault_policies.operator.p.max_length = 0")
            .join("");
    assert!(!problem.contains("hare") && problem.contains("at least 1"), "{problem}");
}

#[test]
fn a_file_that_is_missing_too_large_or_not_text_is_refused_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rabbitmq.conf");
    let text = |path: &PathBuf| {
        load(std::slice::from_ref(path), Options::default(), &no_env).unwrap_err().to_string()
    };
    assert!(text(&path).contains("cannot read the configuration file"));
    std::fs::write(&path, vec![b'#'; super::FILE_BYTES_MAX + 1]).unwrap();
    assert!(text(&path).contains("larger than 1048576 bytes"));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(text(&path).contains("not UTF-8"));
    std::fs::write(&path, "heartbeat = 7\n").unwrap();
    assert_eq!(
        load(std::slice::from_ref(&path), Options::default(), &no_env).unwrap().network.heartbeat_s,
        7
    );
    std::fs::write(&path, "heartbeat = \n").unwrap();
    assert!(text(&path).contains("1 problem in the configuration\n  line 1: \"heartbeat\" has no value"));
}

#[test]
fn an_unknown_key_names_itself() {
    let unknown = parse("zzzzzzzzzz = 1", &no_env).unwrap_err();
    assert_eq!(
        unknown[0].kind,
        ProblemKind::UnknownKey { key: "zzzzzzzzzz".to_owned(), nearest: None, not_yet: None }
    );
}

#[test]
fn of_several_files_the_later_one_wins_and_problems_name_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let base = file("a.conf", "heartbeat = 7\nlisteners.tcp.1 = 1\nlisteners.tcp.2 = 2");
    let empty = file("b.conf", "");
    let later = file("c.conf", "\u{feff}heartbeat = 8\nmax_channels_per_connection = $(heartbeat)\n");
    let options = load(&[base.clone(), empty.clone(), later], Options::default(), &no_env).unwrap();
    assert_eq!(options.network.heartbeat_s, 8);
    assert_eq!(options.network.channels_per_connection_max, 8);
    assert_eq!(options.network.listeners.len(), 2);
    assert_eq!(options.notices, [""; 0], "a later file is there to win");

    let twice = file("d.conf", "frame_max = 8192\n\nframe_max = 9000\n");
    let notices = load(&[base.clone(), twice.clone()], Options::default(), &no_env).unwrap().notices;
    let expected = format!(
        "configuration {} line 1: \"frame_max\" has no effect, \"frame_max\" in line 3 counts",
        twice.display()
    );
    assert_eq!(notices, [expected]);

    let wrong = [file("e.conf", "heartbeat = x\n"), file("f.conf", "\nnothing = 1\nalso\n")];
    let files = [base, wrong[0].clone(), empty, wrong[1].clone()];
    let text = load(&files, Options::default(), &no_env).unwrap_err().to_string();
    for (path, rest) in [
        (&wrong[0], "1 problem in the configuration\n  line 1: "),
        (&wrong[1], "2 problems in the configuration\n  line 2: "),
    ] {
        assert!(text.contains(&format!("{}: {rest}", path.display())), "{text}");
    }
    assert!(text.contains("\n  line 3: expected `key = value`"), "{text}");
}

#[test]
fn files_are_read_on_top_of_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.conf");
    std::fs::write(&path, "listeners.tcp.1 = 1\n").unwrap();
    let mut base = Options::default();
    base.network.heartbeat_s = 9;
    let options = load(&[path], base, &no_env).unwrap();
    assert_eq!((options.network.heartbeat_s, options.network.listeners), (9, vec![Listener::Everywhere(1)]));
}
