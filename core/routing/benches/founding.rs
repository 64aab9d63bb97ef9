//! The scenarios of the founding documents by their names, their numbers beside ours: `cargo bench -p routing --bench founding`.
//!
//! One thread. Each scenario runs for about a second in short rounds, and the fastest round counts: on a machine that others use
//! too, it is the one that nobody interrupted. Inserts and deletes are published one by one. A name as argument runs only the scenarios that contain it. Prints Markdown; `--svg FILE` draws those with a founding number.
//! `--one-round-of N` does one round of the N-th scenario and prints its name and number of operations: what
//! `testing/bench/instructions.sh` counts instructions of.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as MemoryOrder};
use std::time::{Duration, Instant};

use message::{Table as Arguments, TableBuf};
use routing::{
    Destination, Exchange, ExchangeKind, Lookup, Message, QueueHandle, Retired, Scratch, Table, route,
};

/// A handle as the broker has it: an `Arc` hashed by the queue's id.
#[derive(Clone)]
struct Handle(Arc<u64>);

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        *self.0 == *other.0
    }
}

impl Eq for Handle {}

impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl QueueHandle for Handle {
    type Exchange = Exchange<Handle>;

    fn cmp_names(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

type To = Destination<Handle>;

/// A scenario: name, the founding documents' number and the target (operations per second, 0 for none), the measurement.
type Scenario = (&'static str, f64, f64, fn() -> f64);

const SCENARIOS: &[Scenario] = &[
    ("churn insert (8k bindings, 4 filters per client)", 1_120.0, 500e3, churn_insert),
    ("MQTT device insert (10k devices, 20k bindings)", 650.0, 500e3, mqtt_insert),
    ("same-key insert (10k)", 415.0, 500e3, same_key_insert),
    ("delete of all (20k MQTT bindings)", 0.0, 500e3, delete_all),
    ("MQTT unicast (10k devices, 20k bindings)", 460e3, 10e6, || mqtt_unicast("commands")),
    ("the same, filters ending in `*`", 0.0, 0.0, || mqtt_unicast("*")),
    ("the same, filters ending in `#`", 0.0, 0.0, || mqtt_unicast("#")),
    ("large fanout (10k queues, same key)", 3_100.0, 100e3, || one_key(ExchangeKind::Topic)),
    ("the same, each handle looked at", 3_100.0, 0.0, large_fanout_walked),
    ("the same, copied into a list", 3_100.0, 0.0, large_fanout_copied),
    ("MQTT broadcast (10k)", 1_667.0, 100e3, mqtt_broadcast),
    ("exact, 10k bindings", 0.0, 10e6, || patterns(&["a{}.b.c"], "a{}.b.c")),
    ("wildcard `*`, 10k bindings", 0.0, 0.0, || patterns(&["a{}.*.c"], "a{}.b.c")),
    ("wildcard `#`, 10k bindings", 0.0, 0.0, || patterns(&["a{}.#"], "a{}.b.c")),
    ("mixed wildcards, 10k bindings", 0.0, 0.0, || {
        patterns(&["a{}.b.c", "a{}.*.d", "*.{}.#", "a{}.#"], "a{}.b.c")
    }),
    ("many wildcard filters (1,000 that overlap)", 0.0, 0.0, many_filters),
    ("direct among 1M bindings", 0.0, 10e6, direct_among_a_million),
    ("headers among 10k bindings", 0.0, 0.0, headers_among_10k),
    ("fanout to 1", 0.0, 10e6, || fanout(1)),
    ("fanout to 10", 0.0, 0.0, || fanout(10)),
    ("fanout to 1,000", 0.0, 0.0, || fanout(1000)),
    ("x-modulus-hash among 10", 0.0, 0.0, || one_of(ExchangeKind::ModulusHash, 10)),
    ("x-consistent-hash among 10 of weight 10", 0.0, 0.0, || one_of(ExchangeKind::ConsistentHash, 10)),
    ("x-random among 10", 0.0, 0.0, || one_of(ExchangeKind::Random, 10)),
    ("x-modulus-hash among 10k", 0.0, 0.0, || one_of(ExchangeKind::ModulusHash, 10_000)),
    ("x-jms-topic, 100 selectors", 0.0, 0.0, jms_topic),
];

/// One round only: for counting instructions, not time.
static ONE_ROUND: AtomicBool = AtomicBool::new(false);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = words.iter().position(|word| word == "--one-round-of") {
        ONE_ROUND.store(true, MemoryOrder::Relaxed);
        let nth: usize = words[at + 1].parse().expect("a number of a scenario");
        if let Some((name, _, _, count)) = SCENARIOS.get(nth) {
            say(&format!("{}\t{name}", count()));
        }
        return;
    }
    let plot = words.iter().position(|word| word == "--svg").map(|at| words[at + 1].clone());
    let is_filter = |word: &&String| !word.starts_with("--") && Some(*word) != plot.as_ref();
    let wanted = words.iter().find(is_filter).cloned().unwrap_or_default();
    say("| scenario | founding, per s | target, per s | Warren, per s | times founding |");
    say("|---|---:|---:|---:|---:|");
    let mut bars = Vec::new();
    for (name, founding, target, measure) in SCENARIOS.iter().filter(|it| it.0.contains(&*wanted)) {
        let rate = measure();
        let ratio = if *founding > 0.0 { shown(rate / founding) } else { "-".into() };
        let [founding_shown, target, ours] = [*founding, *target, rate].map(shown);
        say(&format!("| {name} | {founding_shown} | {target} | {ours} | {ratio} |"));
        if *founding > 0.0 {
            bars.push((*name, *founding, rate));
        }
    }
    if let Some(path) = plot {
        std::fs::write(&path, svg(&bars)).expect("the plot can be written");
    }
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("standard output is open");
}

/// Bars on a logarithmic scale: the founding number above, ours below.
fn svg(bars: &[(&str, f64, f64)]) -> String {
    const LEFT: f64 = 300.0;
    const DECADE: f64 = 62.0;
    const ROW: f64 = 44.0;
    let x = |rate: f64| (rate.log10() - 2.0).max(0.0) * DECADE;
    let height = 40.0 + ROW * bars.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"820\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for decade in 2..=9 {
        let at = LEFT + f64::from(decade - 2) * DECADE;
        out += &format!(
            "<line x1=\"{at}\" x2=\"{at}\" y1=\"24\" y2=\"{height}\" stroke=\"#ddd\"/>\
             <text x=\"{at}\" y=\"16\" fill=\"#666\" text-anchor=\"middle\">10<tspan dy=\"-4\" font-size=\"9\">{decade}</tspan></text>\n"
        );
    }
    for (row, (name, founding, ours)) in bars.iter().enumerate() {
        let y = 32.0 + ROW * row as f64;
        out += &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\n", LEFT - 8.0, y + 19.0);
        for (rate, color, below) in [(founding, "#b8b8b8", 0.0), (ours, "#2f6f4f", 15.0)] {
            let (width, y) = (x(*rate), y + below);
            out += &format!(
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"13\" fill=\"{color}\"/>\
                 <text x=\"{:.1}\" y=\"{}\" font-size=\"11\">{}</text>\n",
                LEFT + width + 4.0,
                y + 11.0,
                shown(*rate)
            );
        }
    }
    out + "</svg>\n"
}

/// Three digits and thousands separated.
fn shown(rate: f64) -> String {
    if rate == 0.0 {
        return "-".into();
    }
    let unit = 10_f64.powi((rate.log10().floor() as i32 - 2).max(0));
    let digits = format!("{:.0}", (rate / unit).round() * unit);
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Operations per second in the fastest round; a round sets up, then does `count` operations.
fn fastest<S, R>(count: usize, mut set_up: impl FnMut() -> S, mut round: impl FnMut(&mut S) -> R) -> f64 {
    if ONE_ROUND.load(MemoryOrder::Relaxed) {
        let mut state = set_up();
        // Caches and scratch memory as they are after a while.
        black_box(round(&mut state));
        black_box(counted(|| round(&mut state)));
        return count as f64;
    }
    let begin = Instant::now();
    let mut least = Duration::MAX;
    while begin.elapsed() < Duration::from_millis(1200) || least == Duration::MAX {
        let mut state = set_up();
        let start = Instant::now();
        let result = round(&mut state);
        least = least.min(start.elapsed());
        black_box(&result);
        drop((result, state));
    }
    count as f64 / least.as_secs_f64()
}

/// Instructions are counted in here.
#[inline(never)]
fn counted<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// As [`fastest`] for rounds that take longer than the machine leaves them alone: each piece of a round has its own fastest time.
fn fastest_in_pieces<S>(
    count: usize,
    set_up: impl Fn() -> S,
    mut operation: impl FnMut(&mut S, usize),
) -> f64 {
    const PIECE: usize = 200;
    if ONE_ROUND.load(MemoryOrder::Relaxed) {
        let mut state = set_up();
        counted(|| (0..count).for_each(|at| operation(&mut state, at)));
        return count as f64;
    }
    let mut least = vec![Duration::MAX; count.div_ceil(PIECE)];
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 3 || begin.elapsed() < Duration::from_secs(3) {
        let mut state = set_up();
        for (piece, least) in least.iter_mut().enumerate() {
            let start = Instant::now();
            for at in piece * PIECE..count.min((piece + 1) * PIECE) {
                operation(&mut state, at);
            }
            *least = (*least).min(start.elapsed());
        }
        rounds += 1;
    }
    count as f64 / least.iter().sum::<Duration>().as_secs_f64()
}

fn queues(count: u64) -> Vec<To> {
    (0..count).map(|id| Destination::Queue(Handle(Arc::new(id)))).collect()
}

fn exchange<'d>(
    kind: ExchangeKind,
    bindings: impl IntoIterator<Item = (String, &'d To)>,
) -> Exchange<Handle> {
    let exchange = Exchange::new(1, b"x", kind);
    let _ = exchange.edit(|table| {
        for (key, to) in bindings {
            table.bind(key.as_bytes(), Arguments::EMPTY, to);
        }
    });
    exchange
}

/// Numbers below `count` in an order that no cache foresees.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (0..u64::MAX).map(move |n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % count)
}

/// Adds bindings one by one, each published on its own, as clients do that wait for the answer.
fn insert_each(bindings: &[(String, &To)]) -> f64 {
    let new = || (Exchange::new(1, b"x", ExchangeKind::Topic), Retired::new());
    fastest_in_pieces(bindings.len(), new, |(exchange, retired), at| {
        let (key, to) = &bindings[at];
        retired.retire(exchange.edit(|table| table.bind(key.as_bytes(), Arguments::EMPTY, to)).1);
    })
}

fn churn_insert() -> f64 {
    let queues = queues(2000);
    let filters = ["status", "*.state", "#", "telemetry.*.#"];
    let all = queues
        .iter()
        .enumerate()
        .flat_map(|(n, to)| filters.iter().map(move |filter| (format!("clients.{n}.{filter}"), to)));
    insert_each(&all.collect::<Vec<_>>())
}

fn mqtt_bindings<'d>(queues: &'d [To], filter: &str) -> Vec<(String, &'d To)> {
    let own = queues.iter().enumerate().map(|(n, to)| (format!("devices.{n}.{filter}"), to));
    let both = own.flat_map(|(key, to)| [(key, to), ("broadcast.#".to_owned(), to)]);
    both.collect()
}

fn mqtt_insert() -> f64 {
    insert_each(&mqtt_bindings(&queues(10_000), "#"))
}

fn same_key_insert() -> f64 {
    let queues = queues(10_000);
    insert_each(&queues.iter().map(|to| ("one.key".to_owned(), to)).collect::<Vec<_>>())
}

fn delete_all() -> f64 {
    let queues = queues(10_000);
    let bindings = mqtt_bindings(&queues, "#");
    let full = exchange(ExchangeKind::Topic, bindings.iter().cloned()).table();
    let new = || {
        let exchange = Exchange::new(1, b"x", ExchangeKind::Topic);
        drop(exchange.publish(Table::clone(&full)));
        (exchange, Retired::new())
    };
    fastest_in_pieces(bindings.len(), new, |(exchange, retired), at| {
        let (key, to) = &bindings[at];
        retired.retire(exchange.edit(|table| table.unbind(key.as_bytes(), Arguments::EMPTY, to)).1);
        assert!(at + 1 < bindings.len() || exchange.load().is_empty());
    })
}

/// Routes each key, with the table loaded once, and takes the table's own list of queues where there is one, as the broker does.
fn routes(exchange: &Exchange<Handle>, keys: &[String]) -> f64 {
    fastest(
        keys.len(),
        || (Scratch::new(), Vec::new()),
        |(scratch, out)| {
            let table = exchange.load();
            let mut found = 0;
            for key in keys {
                match table.lookup(black_box(key.as_bytes())) {
                    Lookup::Queues(queues) => {
                        found += black_box(queues).as_slice().map_or(2, <[Handle]>::len);
                    }
                    Lookup::Nothing => panic!("every key has a queue"),
                    Lookup::Walk => {
                        let message = Message { keys: &[key.as_bytes()], ..Message::default() };
                        route(exchange, &message, &|_| None, scratch, out);
                        found += out.len();
                    }
                }
            }
            assert!(found >= keys.len());
        },
    )
}

fn mqtt_unicast(filter: &str) -> f64 {
    let queues = queues(10_000);
    let exchange = exchange(ExchangeKind::Topic, mqtt_bindings(&queues, filter));
    let keys: Vec<String> = scattered(10_000).take(10_000).map(|n| format!("devices.{n}.commands")).collect();
    routes(&exchange, &keys)
}

fn mqtt_broadcast() -> f64 {
    let queues = queues(10_000);
    let exchange = exchange(ExchangeKind::Topic, mqtt_bindings(&queues, "#"));
    routes(&exchange, &vec!["broadcast.news".to_owned(); 1000])
}

fn one_key(kind: ExchangeKind) -> f64 {
    let queues = queues(10_000);
    let exchange = exchange(kind, queues.iter().map(|to| ("one.key".to_owned(), to)));
    routes(&exchange, &vec!["one.key".to_owned(); 1000])
}

fn large_fanout_walked() -> f64 {
    let queues = queues(10_000);
    let exchange = exchange(ExchangeKind::Topic, queues.iter().map(|to| ("one.key".to_owned(), to)));
    fastest(
        100,
        || (),
        |()| {
            let table = exchange.load();
            for _ in 0..100 {
                let Lookup::Queues(queues) = table.lookup(black_box(b"one.key")) else {
                    panic!("no such list")
                };
                let handles = queues.chunks().flatten().map(|queue| Arc::as_ptr(&queue.0) as usize);
                black_box(handles.fold(0, |sum, handle| sum ^ handle));
            }
        },
    )
}

fn large_fanout_copied() -> f64 {
    let queues = queues(10_000);
    let exchange = exchange(ExchangeKind::Topic, queues.iter().map(|to| ("one.key".to_owned(), to)));
    fastest(
        20,
        || (Scratch::new(), Vec::new()),
        |(scratch, out)| {
            for _ in 0..20 {
                let message = Message { keys: &[b"one.key"], ..Message::default() };
                route(black_box(&exchange), &message, &|_| None, scratch, out);
                assert_eq!(out.len(), 10_000);
            }
        },
    )
}

/// 10,000 bindings made from the patterns in turn, and keys that match some of them.
fn patterns(patterns: &[&str], key: &str) -> f64 {
    let queues = queues(10_000);
    let bindings = queues
        .iter()
        .enumerate()
        .map(|(n, to)| (patterns[n % patterns.len()].replace("{}", &(n / patterns.len()).to_string()), to));
    let exchange = exchange(ExchangeKind::Topic, bindings);
    let own = 10_000 / patterns.len() as u64;
    let keys: Vec<String> = scattered(own).take(10_000).map(|n| key.replace("{}", &n.to_string())).collect();
    routes(&exchange, &keys)
}

fn many_filters() -> f64 {
    let queues = queues(1000);
    let bindings = queues.iter().enumerate().map(|(n, to)| {
        let word = |part: &str, at: usize| match n / at % 10 {
            0 => "*".to_owned(),
            1 if part != "b" => "#".to_owned(),
            other => format!("{part}{other}"),
        };
        (format!("{}.{}.{}", word("a", 1), word("b", 10), word("c", 100)), to)
    });
    let exchange = exchange(ExchangeKind::Topic, bindings);
    let key = |n: u64| format!("a{}.b{}.c{}", n % 8 + 2, n / 8 % 8 + 2, n / 64 + 2);
    routes(&exchange, &scattered(512).take(1000).map(key).collect::<Vec<_>>())
}

fn direct_among_a_million() -> f64 {
    let queues = queues(1000);
    let named = (0..1_000_000_u64).map(|n| (format!("key.{n}"), &queues[(n % 1000) as usize]));
    let exchange = exchange(ExchangeKind::Direct, named);
    routes(&exchange, &scattered(1_000_000).take(1000).map(|n| format!("key.{n}")).collect::<Vec<_>>())
}

fn headers_among_10k() -> f64 {
    let queues = queues(10_000);
    let fields = |n: u64| {
        let mut table = TableBuf::new();
        table.push_str("format", ["pdf", "zip"][(n % 2) as usize]).push_i64("region", (n % 7).cast_signed());
        table.push_i64("id", n.cast_signed());
        table
    };
    let exchange = Exchange::new(1, b"x", ExchangeKind::Headers);
    let _ = exchange.edit(|table| {
        for (n, to) in (0..).zip(&queues) {
            table.bind(b"", fields(n).as_table(), to);
        }
    });
    let messages: Vec<TableBuf> = scattered(10_000).take(1000).map(fields).collect();
    with_headers(&exchange, &messages)
}

fn with_headers(exchange: &Exchange<Handle>, messages: &[TableBuf]) -> f64 {
    fastest(
        messages.len(),
        || (Scratch::new(), Vec::new()),
        |(scratch, out)| {
            for headers in messages {
                let message = Message { keys: &[b"k"], headers: Some(headers.as_table()), properties: None };
                route(black_box(exchange), &message, &|_| None, scratch, out);
                assert!(!out.is_empty());
            }
        },
    )
}

fn jms_topic() -> f64 {
    let queues = queues(100);
    let exchange = Exchange::new(1, b"x", ExchangeKind::JmsTopic);
    let _ = exchange.edit(|table| {
        for (n, to) in queues.iter().enumerate() {
            let mut arguments = TableBuf::new();
            let selector =
                format!("{{'and',{{'=',{{ident,<<\"region\">>}},{n}}},{{'>',{{ident,<<\"size\">>}},5}}}}");
            arguments.push_str("rjms_erlang_selector", selector);
            table.bind(b"k", arguments.as_table(), to);
        }
    });
    let message = |n: u64| {
        let mut table = TableBuf::new();
        table.push_i64("size", 10).push_i64("region", n.cast_signed());
        table
    };
    with_headers(&exchange, &scattered(100).take(1000).map(message).collect::<Vec<_>>())
}

fn fanout(count: u64) -> f64 {
    let queues = queues(count);
    let exchange = exchange(ExchangeKind::Fanout, queues.iter().map(|to| (String::new(), to)));
    routes(&exchange, &vec![String::new(); 1000])
}

fn one_of(kind: ExchangeKind, count: u64) -> f64 {
    let queues = queues(count);
    let exchange = exchange(kind, queues.iter().map(|to| ("10".to_owned(), to)));
    routes(&exchange, &scattered(100_000).take(1000).map(|n| format!("key.{n}")).collect::<Vec<_>>())
}
