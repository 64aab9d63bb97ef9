//! The list of suites. A new suite is one entry here. Refuses to know how suites are run.
//!
//! A script is run by bash in the root of the repository, with `PYTHON`, `CACHE` (the folder of `testing/setup.sh`), `LOGS`,
//! `BROKER_FLAVOR` and, except with `--against-url`, `WARREN_BIN`. Its broker, if it has one, is at `AMQP_URL` (`MANAGEMENT_URL`, if it
//! serves HTTP), commands for it go through `CTL`, and `BROKER_RESTART` restarts it, unless it is shared. `SEED` is `--seed N` or nothing.

/// A suite.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Not by `make test`: a long campaign of `make soak`.
    pub(crate) is_soak: bool,
    pub(crate) broker: Broker,
    pub(crate) against_url: AgainstUrl,
    /// Parts of `testing/setup.sh`, beside `python`.
    pub(crate) needs: &'static [&'static str],
    /// A suite that is not through by then has failed.
    pub(crate) minutes_max: u64,
    pub(crate) script: &'static str,
}

/// The broker that a suite finds at `AMQP_URL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broker {
    /// None: the suite starts what it needs.
    Nobody,
    /// One that all suites share.
    Shared,
    /// One that is started for it, with these arguments.
    Own(&'static [&'static str]),
    /// One that it restarts; with `--against-url` a relay before that broker.
    Restarted,
}

/// Whether a suite can run against a broker that was not started for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgainstUrl {
    Always,
    /// Only when it is named.
    Named,
    Never,
}

/// Most suites are one line: a name and a script that starts its own servers.
const fn suite(name: &'static str, script: &'static str) -> Suite {
    Suite {
        name,
        is_soak: false,
        broker: Broker::Nobody,
        against_url: AgainstUrl::Never,
        needs: &[],
        minutes_max: 20,
        script,
    }
}

/// A suite of a client library: any broker does.
const fn client(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Suite {
    Suite { broker: Broker::Shared, against_url: AgainstUrl::Always, needs, ..suite(name, script) }
}

/// A campaign of `make soak`.
const fn soak(name: &'static str, minutes_max: u64, script: &'static str) -> Suite {
    Suite { minutes_max, is_soak: true, ..suite(name, script) }
}

impl Suite {
    const fn needs(self, needs: &'static [&'static str]) -> Suite {
        Suite { needs, ..self }
    }

    const fn with(self, broker: Broker) -> Suite {
        Suite { broker, ..self }
    }

    const fn against(self, against_url: AgainstUrl) -> Suite {
        Suite { against_url, ..self }
    }
}

/// Functions that scripts may call.
pub(crate) const PRELUDE: &str = r#"
set -uo pipefail
pytest() { "$PYTHON" -m pytest "$@"; }
go_test() (
  export GOMODCACHE=$CACHE/go/mod GOCACHE=$CACHE/go/build GOFLAGS="-mod=readonly -modcacherw" GOTOOLCHAIN=local
  cd testing/clients/go && go test -count=1 -timeout 180s "$@" ./...
)
node_test() { NODE_PATH=$CACHE/node/node_modules node --test --test-reporter=spec "$@" testing/clients/node/; }
cargo_test() { cargo test --quiet --workspace --test lapin -- "$@"; }
"#;

const CONFIG: &[&str] = &["--config", "testing/conformance/warren.conf"];

/// Arguments of the broker that suites share.
pub(crate) const SHARED_ARGUMENTS: &[&str] = CONFIG;

/// All suites. One lane runs them from the front, two from the back, until they meet: three keep two cores busy. The suites that share a
/// broker stand in front, so they never run side by side; the longest stand at the back.
pub(crate) const SUITES: &[Suite] = &[
    client(
        "conformance",
            &[],
        r#""$PYTHON" testing/conformance/behaviours.py --check &&
           cd testing/conformance && pytest "--url=$AMQP_URL" "--flavor=$BROKER_FLAVOR" ${CTL:+"--ctl=$CTL"} ."#,
    ),
    client(
        "java",
            &["java"],
        r#""$PYTHON" testing/clients/java/perftest.py --seconds "${PERFTEST_S:-3}" --log "$LOGS/perftest-output.log""#,
    ),
    client(
        "published",
            &["go", "published"],
        r#""$PYTHON" testing/clients/published/run.py --url "$AMQP_URL" --cache "$CACHE" --logs "$LOGS""#,
    ),
    client("python", &[], r#"cd testing/clients/python && pytest --ignore test_celery.py -k "not restart""#),
    client("celery", &[], r#"cd testing/clients/python && pytest test_celery.py -k "not restart""#),
    client("node", &["node"], "node_test"),
    client(
        "amqp10",
        &["node"],
        "NODE_PATH=$CACHE/node/node_modules node --test --test-reporter=spec testing/amqp10/",
    ),
    client("amqp10-clients", &["amqp10"], "testing/amqp10/clients/run.sh"),
    client("go", &["go"], "go_test -skip Restart"),
    client("rust", &[], "cargo_test --skip restart"),
    suite("perf", r#""$PYTHON" testing/perf/check.py --warren "$WARREN_BIN" --url "$AMQP_URL""#).with(Broker::Shared),
    // Alarms stop every publisher of a node.
    suite(
        "alarms",
            r#"cd testing/conformance && pytest -n 0 -m alone "--url=$AMQP_URL" "--flavor=$BROKER_FLAVOR" "--ctl=$CTL" ."#,
    )
    .with(Broker::Own(CONFIG)),
    suite("ctl", "pytest -c testing/ctl/pytest.ini testing/ctl").needs(&["monitors"]),
    suite(
        "amqp10-v1",
        "NODE_PATH=$CACHE/node/node_modules node --test --test-reporter=spec testing/amqp10/addresses_v1.js",
    )
    .needs(&["node"])
    .with(Broker::Own(&["--config", "testing/amqp10/v1.conf"]))
    .against(AgainstUrl::Named),
    suite("events", "cd testing/events && pytest ."),
    suite(
        "rabbitmqadmin",
            "RABBITMQADMIN=$CACHE/rabbitmqadmin/bin/rabbitmqadmin pytest -n 0 testing/clients/rabbitmqadmin",
    )
    .needs(&["rabbitmqadmin"]),
    suite("prometheus", "cd testing/prometheus && pytest ."),
    suite(
        "hostile",
            r#""$PYTHON" testing/crash/hostile.py --flood-mb "${FLOOD_MB:-512}" ${WARREN_BIN:+--warren "$WARREN_BIN"} ${BROKER_PID:+--pid "$BROKER_PID"}"#,
    )
    .against(AgainstUrl::Named),
    client(
        "reconnect",
        &["node", "go"],
        r#"failed=0
           echo "== Python"; (cd testing/clients/python && pytest -k restart) || failed=1
           echo "== Node"; node_test --test-name-pattern restart || failed=1
           echo "== Go"; go_test -run Restart || failed=1
           echo "== Rust"; cargo_test restart || failed=1
           exit $failed"#,
    )
    .with(Broker::Restarted),
    suite("packages", "pytest -c testing/packages/pytest.ini testing/packages").needs(&["packages"]),
    suite(
        "delayed",
        r#""$PYTHON" testing/crash/delayed.py --warren "$WARREN_BIN" $SEED && "$PYTHON" testing/crash/seen.py --warren "$WARREN_BIN""#,
    ),
    suite(
        "datadir",
        r#""$PYTHON" testing/crash/datadir.py --warren "$WARREN_BIN" && "$PYTHON" testing/crash/oldfolders.py --warren "$WARREN_BIN""#,
    ),
    suite("configured", r#"cd testing/configured && pytest "--warren=$WARREN_BIN" -n 2 ."#),
    suite("shovel", "cd testing/shovel && pytest -n 2 ."),
    suite("freeze", r#""$PYTHON" testing/crash/freeze.py --warren "$WARREN_BIN" $SEED"#),
    suite("streamproto", "cd testing/streamproto && pytest ."),
    suite("tls", "cd testing/tls && CACHE=$CACHE pytest -n 2 .").needs(&["node", "go", "java"]),
    suite("fulldisk", r#""$PYTHON" testing/crash/fulldisk.py --warren "$WARREN_BIN""#),
    suite(
        "kill9",
        r#""$PYTHON" testing/crash/kill9.py --warren "$WARREN_BIN" --cycles "${KILL9_CYCLES:-8}" --power-cut $SEED &&
           "$PYTHON" testing/crash/streams.py --warren "$WARREN_BIN" --cycles 5 $SEED &&
           "$PYTHON" testing/crash/stuck.py --warren "$WARREN_BIN""#,
    ),
    suite("mqtt", "cd testing/mqtt && CACHE=$CACHE pytest .").needs(&["mqtt"]),
    suite("stomp", r#"cd testing/stomp && "$CACHE/stomp/venv/bin/python" -m pytest ."#).needs(&["stomp"]),
    suite("management", "pytest -c testing/management/pytest.ini testing/management").needs(&["java", "monitors", "go"]),
    suite(
        "ui",
            r#"UI_MODULES=$CACHE/ui/node_modules node ui/build/check.mjs &&
           CHROMIUM=${CHROMIUM:-$(command -v chromium)} node --test --test-reporter=spec testing/ui/ui.test.mjs"#,
    )
    .needs(&["ui", "node"])
    .with(Broker::Own(&["--management-listen", "127.0.0.1:0"])),
    suite("cluster", "cd testing/cluster && CACHE=$CACHE pytest -n 2 .").needs(&["node"]),
    // Seed 2545 and 5100329 once failed.
    soak("soak-simulator", 300, "for seed in 2545 5100329; do cargo xtask sim --seed $seed || exit 1; done; cargo xtask sim --seeds 2000"),
    soak(
        "soak-groups",
        60,
        "MULTIRAFT_SEEDS=1000000..1020000 cargo test --release -p multiraft --test simulation confirmed",
    ),
    // Leaders and members of a queue over simulated disks and links, and the rules that choose leaders: random histories of both.
    soak(
        "soak-replica-histories",
        60,
        r#"export WARREN_HISTORIES=10000
           cargo test --release -p queues members_that_come_and_go && cargo test --release -p broker whoever_may_lead"#,
    ),
    soak("soak-kill9", 120, r#""$PYTHON" testing/crash/kill9.py --warren "$WARREN_BIN" --cycles 200 --power-cut --seed random"#),
    soak("soak-replicas", 90, r#""$PYTHON" testing/cluster/soak_replicas.py --warren "$WARREN_BIN" --minutes 60"#),
    // Against each node of three: queues are where their clients are, then on all nodes.
    soak(
        "soak-conformance-cluster",
        30,
        r#""$PYTHON" testing/cluster/conformance.py --warren "$WARREN_BIN" &&
           "$PYTHON" testing/cluster/conformance.py --warren "$WARREN_BIN" --balanced"#,
    ),
    soak("soak-freeze", 60, r#""$PYTHON" testing/crash/freeze.py --warren "$WARREN_BIN" --cycles 20 --seed random"#),
    soak("soak-delayed", 60, r#""$PYTHON" testing/crash/delayed.py --warren "$WARREN_BIN" --cycles 60 --seed random"#),
    soak("soak-flood", 60, r#""$PYTHON" testing/crash/hostile.py --warren "$WARREN_BIN" --flood-mb 8192"#),
    soak(
        "soak-applications",
        120,
        r#""$PYTHON" testing/clients/applications/run.py --url "$AMQP_URL" --cache "$CACHE" --logs "$LOGS""#,
    )
    .needs(&["go", "applications"])
    .with(Broker::Own(CONFIG))
    .against(AgainstUrl::Named),
    soak("soak-fulldisk", 60, r#"for run in 1 2 3 4 5; do "$PYTHON" testing/crash/fulldisk.py --warren "$WARREN_BIN" --all || exit 1; done"#),
    // Go's client runs its own suite; it compiles.
    soak("soak-mqtt-go", 20, "testing/mqtt/others/go.sh").needs(&["mqtt", "go"]),
    // It compiles rumqttc.
    soak("soak-mqtt-rust", 20, r#""$PYTHON" testing/mqtt/others/rust.py --warren "$WARREN_BIN" --cache "$CACHE""#).needs(&["mqtt"]),
    // MQTT_TESTS is a checkout of the tests, if their repository cannot be fetched.
    soak(
        "soak-mqtt-paho",
        20,
        r#""$PYTHON" testing/mqtt/others/interoperability.py --warren "$WARREN_BIN" --cache "$CACHE" ${MQTT_TESTS:+--source "$MQTT_TESTS"}"#,
    )
    .needs(&["mqtt"]),
    // It compiles. One run each: the cost of stages is within the difference of two runs.
    soak(
        "instructions",
        20,
        r#"command -v valgrind > /dev/null || { echo "SKIPPED: valgrind is not installed"; exit 0; }
           ROUNDS=1 STAGE_INSTRUCTIONS_MAX=60 testing/bench/hot_path.sh"#,
    )
    .needs(&["valgrind"]),
    // It compiles a release. Needs lintian, rpm and skopeo, as root: a missing tool is named.
    soak(
        "soak-streams-go",
        30,
        r#""$PYTHON" testing/clients/streams/go.py --warren "$WARREN_BIN" --cache "$CACHE" --logs "$LOGS""#,
    )
    .needs(&["go"]),
    // It compiles.
    soak(
        "soak-streams-rust",
        30,
        r#""$PYTHON" testing/clients/streams/rust.py --warren "$WARREN_BIN" --cache "$CACHE" --logs "$LOGS""#,
    ),
    // STREAM_JAVA_CLIENT is a checkout of the client, if its repository cannot be fetched.
    soak(
        "soak-streams-java",
        60,
        r#""$PYTHON" testing/clients/streams/java.py --warren "$WARREN_BIN" --cache "$CACHE" --logs "$LOGS" ${STREAM_JAVA_CLIENT:+--source "$STREAM_JAVA_CLIENT"}"#,
    )
    .needs(&["java"]),
    soak("soak-packages", 120, "testing/packages/release.sh").needs(&["packages"]),
    soak("soak-requests", 120, "TEST_SEED=1-300 pytest -c testing/management/pytest.ini testing/management").needs(&["java", "monitors", "go"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_once_and_is_a_word() {
        for (index, suite) in SUITES.iter().enumerate() {
            let same = SUITES.iter().filter(|other| other.name == suite.name).count();
            assert_eq!(same, 1, "{}", suite.name);
            assert!(
                suite.name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-'),
                "{index}"
            );
        }
    }

    #[test]
    fn bash_reads_every_script() {
        for suite in SUITES {
            let script = format!("{PRELUDE}{}", suite.script);
            let read = std::process::Command::new("bash").args(["-n", "-c", &script]).status();
            assert!(read.unwrap().success(), "{}", suite.name);
        }
    }

    #[test]
    fn what_is_run_against_any_broker_does_not_start_warren() {
        for suite in SUITES.iter().filter(|suite| suite.against_url == AgainstUrl::Always) {
            assert!(!suite.script.contains("WARREN_BIN"), "{}", suite.name);
        }
    }
}
