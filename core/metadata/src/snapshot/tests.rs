//! Snapshots and logs give back the state: golden bytes, damage, and random histories.

use proptest::collection::vec;
use proptest::prelude::*;
use stdx::{ExchangeId, QueueId};
use wire::amqp091::{TableBuf, Value};

use super::*;
use crate::testing::histories::commands;
use crate::testing::*;
use crate::*;

/// The form of a snapshot of version 1 of this small state, for ever.
const GOLDEN_V1: &str = include_str!("golden_v1.hex");

fn definition(text: &str) -> PolicyDefinition {
    PolicyDefinition::from_json(text).expect("it is one")
}

fn small_state() -> State {
    let mut machine = Machine::with_vhost("/");
    let mut arguments = TableBuf::new();
    arguments.push("x-max-length", Value::I32(10));
    machine.ok(&auto_delete_exchange("x"));
    machine.ok(&Command::DeclareQueue(DeclareQueue { arguments: arguments.into(), ..declare_queue("q") }));
    machine.ok(&transient_queue("t"));
    machine.ok(&bind("x", "q", "k"));
    machine.ok(&bind("x", "t", "k"));
    let credentials = Credentials::of_password(Hashing::Sha256, [1, 2, 3, 4], b"guest").unwrap();
    machine.ok(&Command::AddUser(AddUser {
        name: name("u"),
        credentials,
        tags: vec!["administrator".into()],
    }));
    machine.ok(&Command::SetPermissions(SetPermissions {
        user: name("u"),
        vhost: name("/"),
        configure: "".into(),
        write: ".*".into(),
        read: "^a".into(),
    }));
    machine.ok(&Command::SetPolicy(SetPolicy {
        vhost: name("/"),
        name: "p".into(),
        pattern: "^q".into(),
        apply_to: ApplyTo::Queues,
        priority: -1,
        definition: definition(r#"{"max-length":5}"#),
    }));
    machine.state
}

#[test]
fn bindings_keep_the_order_in_which_they_were_made_over_a_snapshot() {
    let mut machine = Machine::with_vhost("/");
    machine.ok(&auto_delete_exchange("x"));
    machine.ok(&queue("q"));
    for key in ["c", "a", "d", "b"] {
        machine.ok(&bind("x", "q", key));
    }
    machine.ok(&unbind("x", "q", "a"));
    machine.ok(&bind("x", "q", "e"));
    let keys = |state: &State| -> Vec<Name> {
        let vhost = state.vhost(b"/").expect("it was made");
        vhost.bindings_in_order_made().into_iter().map(|binding| binding.key.clone()).collect()
    };
    let made = ["c", "d", "b", "e"].map(name);
    assert_eq!(keys(&machine.state), made);
    assert_eq!(keys(&State::decode_snapshot(&machine.snapshot()).unwrap()), made);
}

#[test]
fn a_queue_remembers_who_declared_it() {
    let mut machine = Machine::with_vhost("/");
    let mut applied = Applied::default();
    let declare = Command::DeclareQueue(declare_queue("q"));
    machine.state.apply_by(&declare, Some(b"u"), &mut applied).unwrap();
    machine.state.apply_by(&declare, Some(b"another"), &mut applied).unwrap();
    let by = |state: &State| {
        let queue = state.vhost(b"/").unwrap().queue(b"q").expect("it was made");
        queue.declared_by.as_deref().map(<[u8]>::to_vec)
    };
    assert_eq!(by(&machine.state), Some(b"u".to_vec()));
    assert_eq!(by(&State::decode_snapshot(&machine.snapshot()).unwrap()), Some(b"u".to_vec()));
    let mut replayed = Machine::with_vhost("/").state;
    applied.facts.iter().for_each(|fact| replayed.replay(fact).unwrap());
    assert_eq!(by(&replayed), Some(b"u".to_vec()));
}

#[test]
fn an_exchange_remembers_who_declared_it_or_made_its_vhost() {
    let mut state = State::default();
    let mut applied = Applied::default();
    let vhost = add_vhost("/");
    state.apply_by(&vhost, Some(b"maker"), &mut applied).unwrap();
    let declare = Command::DeclareExchange(declare_exchange("x", "topic"));
    state.apply_by(&declare, Some(b"u"), &mut applied).unwrap();
    state.apply_by(&declare, Some(b"another"), &mut applied).unwrap();
    let by = |state: &State, exchange: &[u8]| {
        let exchange = state.vhost(b"/").unwrap().exchange(exchange).expect("it was made");
        exchange.declared_by.as_deref().map(<[u8]>::to_vec)
    };
    let mut replayed = State::default();
    applied.facts.iter().for_each(|fact| replayed.replay(fact).unwrap());
    for state in [&state, &State::decode_snapshot(&snapshot(&state)).unwrap(), &replayed] {
        assert_eq!(
            (by(state, b"x"), by(state, b"amq.topic")),
            (Some(b"u".to_vec()), Some(b"maker".to_vec()))
        );
    }
}

/// The form of log facts of version 1, for ever: one of each.
const GOLDEN_FACTS_V1: &str = include_str!("golden_facts_v1.hex");

fn one_limit() -> Limits {
    [("max-connections".into(), -1)].into_iter().collect()
}

fn one_fact_of_each() -> Vec<Fact> {
    let (user, vhost, exchange) = (name("u"), name("v"), name("x"));
    let named = || NameInVhost { vhost: name("v"), name: name("n") };
    let metadata = VhostMetadata {
        description: "d".into(),
        tags: vec!["t".into()],
        default_queue_type: Some("quorum".into()),
        protected_from_deletion: true,
    };
    let credentials = Credentials { password_hash: [7; 20].as_slice().into(), hashing: Hashing::Md5 };
    let Bind { source, destination, key, .. } = bind_to("x", DestinationName::Exchange(name("y")), "k");
    let arguments = Arguments::from_raw(b"\x01aV".as_slice());
    let unbind = Unbind { vhost: vhost.clone(), source, destination, key, arguments };
    let (write, read): (Box<str>, Box<str>) = ("w".into(), "r".into());
    let grant = SetPermissions {
        user: user.clone(),
        vhost: vhost.clone(),
        configure: "c".into(),
        write: write.clone(),
        read: read.clone(),
    };
    let (to, of) = (vhost.clone(), user.clone());
    let topic = SetTopicPermissions { user: of, vhost: to, exchange: exchange.clone(), write, read };
    let all_topics =
        ClearTopicPermissions { user: user.clone(), vhost: vhost.clone(), exchange: Some(exchange) };
    let global = SetGlobalParameter { name: "g".into(), value: "1".into() };
    let (component, value) = ("shovel".into(), "[]".into());
    let parameter = SetParameter { vhost: vhost.clone(), component, name: "s".into(), value };
    vec![
        Fact::VhostSet(AddVhost { name: vhost.clone(), metadata }),
        Fact::VhostDeleted(DeleteVhost { name: vhost.clone() }),
        Fact::UserSet(PutUser {
            name: user.clone(),
            credentials,
            tags: vec!["m".into()],
            limits: one_limit(),
        }),
        Fact::UserDeleted(DeleteUser { name: user.clone() }),
        Fact::PermissionsSet(grant),
        Fact::PermissionsCleared(ClearPermissions { user, vhost: vhost.clone() }),
        Fact::TopicPermissionsSet(topic),
        Fact::TopicPermissionsCleared(all_topics),
        Fact::ExchangeAdded(ExchangeFact { id: ExchangeId(5), exchange: declare_exchange("x", "topic") }),
        Fact::ExchangeDeleted(named()),
        Fact::QueueAdded(QueueFact { id: QueueId(6), queue: declare_queue("q") }),
        Fact::QueueDeleted(named()),
        Fact::BindingAdded(bind_to("x", DestinationName::Queue(name("q")), "k")),
        Fact::BindingRemoved(unbind),
        Fact::ParameterSet(parameter),
        Fact::ParameterCleared(ClearParameter {
            vhost: vhost.clone(),
            component: "c".into(),
            name: "n".into(),
        }),
        Fact::GlobalParameterSet(global),
        Fact::GlobalParameterCleared(ClearGlobalParameter { name: "g".into() }),
        Fact::PolicySet(policy("p", ".", ApplyTo::All, 1, "{}")),
        Fact::PolicyCleared(ClearPolicy { vhost, name: "p".into() }),
        Fact::IdsUsed(IdsFact { next: 9 }),
        Fact::VhostLimitsSet(SetVhostLimits { vhost: name("v"), limits: one_limit() }),
        Fact::OperatorPolicySet(operator_policy()),
        Fact::OperatorPolicyCleared(ClearPolicy { vhost: name("v"), name: "o".into() }),
    ]
}

/// Facts that came later.
const GOLDEN_FACTS_V2: &str = include_str!("golden_facts_v2.hex");

#[test]
fn facts_that_came_later_are_written_and_read_as_ever() {
    let added = QueueFact { id: QueueId(7), queue: declare_queue("q2") };
    let made = ExchangeFact { id: ExchangeId(8), exchange: declare_exchange("x2", "fanout") };
    let facts = vec![
        Fact::QueueAddedBy(QueueByFact { by: name("u"), added }),
        Fact::ExchangeAddedBy(ExchangeByFact { by: name("u"), added: made }),
    ];
    assert_eq!(encode_facts(&facts), unhex(GOLDEN_FACTS_V2));
    assert_eq!(Fact::decode_all(&unhex(GOLDEN_FACTS_V2)), Ok(facts));
}

#[test]
fn the_fact_of_an_expiry_is_written_and_read_as_ever() {
    let set = SetQueueExpiry { vhost: name("v"), name: name("q"), id: QueueId(7), expires_ms: Some(9) };
    let facts = vec![Fact::QueueExpirySet(set)];
    let written = unhex("0020 00000001 76 00000001 71 0000000000000007 01 0000000000000009");
    assert_eq!(encode_facts(&facts), written);
    assert_eq!(Fact::decode_all(&written), Ok(facts));
}

#[test]
fn every_fact_is_written_and_read_as_ever() {
    let facts = one_fact_of_each();
    let written = encode_facts(&facts);
    let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, unhex(GOLDEN_FACTS_V1), "written now: {hex}");
    assert_eq!(Fact::decode_all(&unhex(GOLDEN_FACTS_V1)), Ok(facts));
    let starts = facts_codes(&written);
    assert_eq!(starts, (1..=24).collect::<Vec<u16>>(), "codes never change");
}

fn policy(called: &str, pattern: &str, apply_to: ApplyTo, priority: i64, json: &str) -> SetPolicy {
    let (called, pattern) = (called.into(), pattern.into());
    SetPolicy { vhost: name("v"), name: called, pattern, apply_to, priority, definition: definition(json) }
}

fn operator_policy() -> SetPolicy {
    policy("o", "^q", ApplyTo::ClassicQueues, 2, r#"{"max-length":5,"overflow":"drop-head"}"#)
}

/// The codes of facts written one after the other, read back through their lengths.
fn facts_codes(written: &[u8]) -> Vec<u16> {
    let mut reader = Reader::new(written);
    let mut codes = Vec::new();
    while !reader.is_empty() {
        let mut bytes = Vec::new();
        Fact::get(&mut reader).unwrap().encode(&mut bytes);
        codes.push(u16::from_be_bytes([bytes[0], bytes[1]]));
    }
    codes
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn version_1_is_written_and_read_as_ever() {
    let written = snapshot(&small_state());
    let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, unhex(GOLDEN_V1), "written now: {hex}");
    let read = State::decode_snapshot(&unhex(GOLDEN_V1)).unwrap();
    assert_eq!(snapshot(&read), written);
    assert!(read.vhost(b"/").unwrap().queue(b"t").is_none());
}

#[test]
fn no_damaged_byte_and_no_cut_goes_unnoticed() {
    let good = snapshot(&small_state());
    for position in 0..good.len() {
        let mut bad = good.clone();
        bad[position] ^= 0x40;
        assert!(State::decode_snapshot(&bad).is_err(), "byte {position}");
        assert!(State::decode_snapshot(&good[..position]).is_err(), "cut at {position}");
    }
}

#[test]
fn a_newer_version_is_named() {
    let mut newer = snapshot(&State::new());
    newer[9] = 3;
    let error = State::decode_snapshot(&newer).unwrap_err();
    assert_eq!(error, DecodeError::UnknownVersion { found: 3, known_max: 2 });
}

/// Follows changes as the broker's runtime tables do, and checks that each can be followed.
#[derive(Default)]
struct Follower {
    exchanges: std::collections::BTreeSet<u64>,
    queues: std::collections::BTreeSet<u64>,
    bindings: Vec<std::sync::Arc<Binding>>,
    /// Exchanges that delete themselves, and whether anything was ever bound to them as a source.
    auto_delete: std::collections::BTreeMap<u64, bool>,
}

impl Follower {
    fn has_ends(&self, binding: &Binding) -> bool {
        self.exchanges.contains(&binding.source.id.0)
            && match &binding.destination {
                Destination::Queue(queue) => self.queues.contains(&queue.id.0),
                Destination::Exchange(exchange) => self.exchanges.contains(&exchange.id.0),
            }
    }

    fn follow(&mut self, change: &Change) {
        match change {
            Change::ExchangeAdded(exchange) => {
                assert!(self.exchanges.insert(exchange.id.0));
                if exchange.auto_delete {
                    self.auto_delete.insert(exchange.id.0, false);
                }
            }
            Change::QueueAdded(queue) => assert!(self.queues.insert(queue.id.0)),
            Change::QueueChanged(queue) => {
                assert!(self.queues.contains(&queue.id.0));
                for binding in &mut self.bindings {
                    if matches!(&binding.destination, Destination::Queue(known) if known.id == queue.id) {
                        let destination = Destination::Queue(queue.clone());
                        *binding = std::sync::Arc::new(Binding { destination, ..Binding::clone(binding) });
                    }
                }
            }
            Change::BindingAdded(binding) => {
                assert!(self.has_ends(binding) && !self.bindings.contains(binding));
                self.bindings.push(binding.clone());
                if let Some(was_source) = self.auto_delete.get_mut(&binding.source.id.0) {
                    *was_source = true;
                }
            }
            Change::BindingRemoved(binding) => {
                assert!(self.has_ends(binding), "bindings go before their ends");
                let place = self.bindings.iter().position(|known| known == binding);
                self.bindings.swap_remove(place.expect("only known bindings go"));
            }
            Change::QueueDeleted(queue) => {
                assert!(self.queues.remove(&queue.id.0));
                assert!(self.bindings.iter().all(|binding| self.has_ends(binding)));
            }
            Change::ExchangeDeleted(exchange) => {
                assert!(self.exchanges.remove(&exchange.id.0));
                assert!(self.bindings.iter().all(|binding| self.has_ends(binding)));
            }
            _ => {}
        }
    }

    /// After each command: exchanges go by themselves with the last binding they are the source of, not before, and no others do (B50).
    fn check_auto_delete(
        &mut self,
        before: &[std::sync::Arc<Binding>],
        command: &Command,
        changes: &[Change],
    ) {
        let is_source = |id: u64| self.bindings.iter().any(|binding| binding.source.id.0 == id);
        for (id, was_source) in &self.auto_delete {
            assert!(
                !self.exchanges.contains(id) || !was_source || is_source(*id),
                "exchange {id} is still there"
            );
        }
        for change in changes {
            let Change::ExchangeDeleted(exchange) = change else { continue };
            let is_asked_for = match command {
                Command::DeleteExchange(delete) => {
                    delete.name == exchange.name && *delete.vhost == *exchange.vhost
                }
                Command::DeleteVhost(_) | Command::ImportBatch(_) => true,
                _ => false,
            };
            let was_source = self.auto_delete.remove(&exchange.id.0);
            if is_asked_for {
                continue;
            }
            assert_eq!(was_source, Some(true), "{exchange:?} went by {command:?}");
            let is_there = |binding: &Binding| match &binding.destination {
                Destination::Queue(queue) => self.queues.contains(&queue.id.0),
                Destination::Exchange(other) => self.exchanges.contains(&other.id.0),
            };
            let from_it = before.iter().filter(|binding| binding.source.id == exchange.id);
            let unbound = usize::from(matches!(command, Command::Unbind(_)));
            assert!(
                from_it.filter(|binding| is_there(binding)).count() <= unbound,
                "{exchange:?} went too early"
            );
        }
    }

    fn check(&self, state: &State) {
        let count = |of: fn(&Vhost) -> usize| state.vhosts().map(of).sum::<usize>();
        assert_eq!(self.exchanges.len(), count(Vhost::exchange_count));
        assert_eq!(self.queues.len(), count(Vhost::queue_count));
        assert_eq!(self.bindings.len(), count(Vhost::binding_count));
        for binding in &self.bindings {
            let vhost = state.vhost(&binding.source.vhost).expect("bindings have a vhost");
            assert!(vhost.bindings_from(&binding.source.name).contains(&binding));
            assert!(vhost.bindings_to(&binding.destination.to_name()).contains(&binding));
        }
    }
}

/// The transient part too, for comparing states in memory.
fn everything(state: &State) -> String {
    let vhosts: Vec<_> = state.vhosts().map(|it| (it.exchanges(), it.queues(), it.bindings())).collect();
    format!("{vhosts:?}{:?}", state.exclusive)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_snapshot_and_the_facts_after_it_give_the_durable_state(
        history in vec(commands(), 0..150), cut in any::<proptest::sample::Index>(),
    ) {
        let mut machine = Machine::with_vhost("/");
        let cut = cut.index(history.len() + 1);
        let mut taken = machine.snapshot();
        for (position, command) in history.iter().enumerate() {
            if position == cut {
                taken = machine.snapshot();
                machine.applied.clear();
            }
            let _ = machine.apply(command);
        }
        if cut == history.len() {
            taken = machine.snapshot();
            machine.applied.clear();
        }
        let mut restored = State::decode_snapshot(&taken).unwrap();
        let log = encode_facts(&machine.applied.facts);
        prop_assert_eq!(&Fact::decode_all(&log).unwrap(), &machine.applied.facts);
        restored.replay_encoded(&log).unwrap();
        prop_assert_eq!(snapshot(&restored), machine.snapshot());
    }

    #[test]
    fn two_machines_given_the_same_commands_agree_in_everything(history in vec(commands(), 0..150)) {
        let (mut left, mut right) = (Machine::new(), Machine::new());
        let mut follower = Follower::default();
        for command in &history {
            let mut bytes = Vec::new();
            command.encode(&mut bytes);
            let decoded = Command::decode(&bytes).unwrap();
            prop_assert_eq!(&decoded, command);
            left.applied.clear();
            right.applied.clear();
            prop_assert_eq!(left.apply(command), right.apply(&decoded));
            prop_assert_eq!(&left.applied, &right.applied);
            let before = follower.bindings.clone();
            left.applied.changes.iter().for_each(|change| follower.follow(change));
            follower.check_auto_delete(&before, command, &left.applied.changes);
        }
        follower.check(&left.state);
        prop_assert_eq!(everything(&left.state), everything(&right.state));
        prop_assert_eq!(left.snapshot(), right.snapshot());
    }

    #[test]
    fn decoding_any_bytes_gives_a_value_or_an_error(bytes in vec(any::<u8>(), 0..200), code in 0..32_u8) {
        let coded = [&[0, code][..], &bytes].concat();
        if let Ok(command) = Command::decode(&coded) {
            let mut again = Vec::new();
            command.encode(&mut again);
            prop_assert_eq!(again, coded.clone(), "one value has one encoding");
        }
        let _ = Fact::decode_all(&coded);
        let _ = State::decode_snapshot(&bytes);
        let _ = State::new().replay_encoded(&coded);
    }
}
