//! How PerfTest's options are spelled: short forms of several letters behind one dash, which clap does not know, and
//! options that are known but not in this build.
//!
//! Refuses to know what the options mean.

use std::ffi::OsStr;

/// PerfTest's short forms of several letters, and the long forms they stand for.
const SINGLE_DASH: [(&str, &str); 80] = [
    ("-ad", "--auto-delete"),
    ("-bc", "--body-count"),
    ("-bfc", "--body-field-count"),
    ("-ca", "--consumer-args"),
    ("-cri", "--connection-recovery-interval"),
    ("-csd", "--consumer-start-delay"),
    ("-ct", "--confirm-timeout"),
    ("-ctp", "--consumers-thread-pools"),
    ("-dcr", "--disable-connection-recovery"),
    ("-ei", "--expected-instances"),
    ("-em", "--exposed-metrics"),
    ("-env", "--environment-variables"),
    ("-ew", "--exit-when"),
    ("-hst", "--heartbeat-sender-threads"),
    ("-isn", "--instance-sync-namespace"),
    ("-ist", "--instance-sync-timeout"),
    ("-jb", "--json-body"),
    ("-ll", "--leader-locator"),
    ("-ma", "--max-age"),
    ("-mf", "--metrics-format"),
    ("-mh", "--metrics-help"),
    ("-mlb", "--max-length-bytes"),
    ("-mp", "--message-properties"),
    ("-ms", "--use-millis"),
    ("-na", "--nack"),
    ("-niot", "--nio-threads"),
    ("-niotp", "--nio-thread-pool"),
    ("-o2gr", "--oauth2-grant-type"),
    ("-o2id", "--oauth2-client-id"),
    ("-o2p", "--oauth2-parameters"),
    ("-o2sec", "--oauth2-client-secret"),
    ("-o2uri", "--oauth2-token-endpoint"),
    ("-pi", "--polling-interval"),
    ("-po", "--polling"),
    ("-prsd", "--producer-random-start-delay"),
    ("-pst", "--producer-scheduler-threads"),
    ("-qa", "--queue-args"),
    ("-qf", "--queue-file"),
    ("-qp", "--queue-pattern"),
    ("-qpf", "--queue-pattern-from"),
    ("-qpt", "--queue-pattern-to"),
    ("-qq", "--quorum-queue"),
    ("-re", "--requeue"),
    ("-rkcs", "--routing-key-cache-size"),
    ("-sb", "--skip-binding-queues"),
    ("-sco", "--stream-consumer-offset"),
    ("-se", "--sasl-external"),
    ("-smssb", "--stream-max-segment-size-bytes"),
    ("-sni", "--server-name-indication"),
    ("-sq", "--stream-queue"),
    ("-sst", "--servers-startup-timeout"),
    ("-st", "--shutdown-timeout"),
    ("-sul", "--servers-up-limit"),
    ("-tnd", "--tcp-no-delay"),
    ("-trbs", "--tcp-receive-buffer-size"),
    ("-tsbs", "--tcp-send-buffer-size"),
    ("-udsc", "--use-default-ssl-context"),
    ("-vl", "--variable-latency"),
    ("-vr", "--variable-rate"),
    ("-vs", "--variable-size"),
    ("-mpr", "--metrics-prometheus"),
    ("-mpp", "--metrics-prometheus-port"),
    ("-mpe", "--metrics-prometheus-endpoint"),
    ("-mpx", "--metrics-prefix"),
    ("-mt", "--metrics-tags"),
    ("-mc", "--metrics-client"),
    ("-mcl", "--metrics-class-loader"),
    ("-mcla", "--metrics-command-line-arguments"),
    ("-mda", "--metrics-datadog"),
    ("-mdk", "--metrics-datadog-api-key"),
    ("-mds", "--metrics-datadog-step-size"),
    ("-mdak", "--metrics-datadog-application-key"),
    ("-mdh", "--metrics-datadog-host-tag"),
    ("-mdd", "--metrics-datadog-descriptions"),
    ("-mdu", "--metrics-datadog-uri"),
    ("-mjm", "--metrics-jvm-memory"),
    ("-mjgc", "--metrics-jvm-gc"),
    ("-mjp", "--metrics-processor"),
    ("-mjt", "--metrics-jvm-thread"),
    ("-mjx", "--metrics-jmx"),
];

/// Beginnings of long options that PerfTest has and this build has not, and what to do instead.
const REFUSED: [(&str, &str); 7] = [
    ("--sasl-external", "logins by certificate are not in this build"),
    ("--server-name-indication", "the name that is sent is the host in the address"),
    ("--oauth2-", "OAuth 2 is not in this build: put a token into the address as the password"),
    (
        "--expected-instances",
        "several instances are not synchronised: start them together, with -prsd if need be",
    ),
    (
        "--instance-sync-",
        "several instances are not synchronised: start them together, with -prsd if need be",
    ),
    ("--metrics-datadog", "metrics are told to Prometheus only: --metrics-prometheus"),
    ("--metrics-jmx", "there is no Java machine: metrics are told to Prometheus, --metrics-prometheus"),
];

/// Long forms of all options that have a short form of several letters.
pub(super) const LONG_FORMS: [&str; SINGLE_DASH.len()] = {
    let mut forms = [""; SINGLE_DASH.len()];
    let mut n = 0;
    while n < forms.len() {
        forms[n] = SINGLE_DASH[n].1;
        n += 1;
    }
    forms
};

/// Long options that PerfTest has not.
pub(super) const OURS: [&str; 10] = [
    "clean-up",
    "end-with-parent",
    "histogram",
    "json",
    "latency-from",
    "quiet",
    "series",
    "threads",
    "topology-only",
    "watch-pid",
];

/// The long name that a short name of several letters stands for, both without dashes.
pub(super) fn short_form(name: &str) -> Option<&'static str> {
    let found = SINGLE_DASH.iter().find(|(short, _)| &short[1..] == name);
    found.map(|(_, long)| long.trim_start_matches('-'))
}

/// Why this long option cannot be used, if it is one of PerfTest's that this build has not.
pub(super) fn refusal(arg: &OsStr) -> Option<String> {
    let text = arg.to_str()?;
    let name = text.split('=').next().unwrap_or(text);
    REFUSED.iter().find(|(start, _)| name.starts_with(start)).map(|(_, why)| format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_of_several_letters_are_found() {
        assert_eq!(short_form("qpf"), Some("queue-pattern-from"));
        assert_eq!((short_form("q"), short_form("C100")), (None, None));
    }

    #[test]
    fn what_is_not_in_this_build_says_what_to_do_instead() {
        let refusal = |word: &str| refusal(OsStr::new(word));
        assert!(refusal("--oauth2-client-id=x").unwrap().contains("token"));
        assert!(refusal("--metrics-datadog-uri").unwrap().contains("--metrics-prometheus"));
        assert_eq!((refusal("--metrics-format"), refusal("--rate")), (None, None));
    }
}
