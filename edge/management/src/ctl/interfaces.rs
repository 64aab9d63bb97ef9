//! The network interfaces of the machine, as the kernel's files show them, in RabbitMQ's form. Refuses to know who listens on them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::ctl::protocol::Answer;
use crate::resources::node::NODE_NAME;

/// The kind of an interface, by bits of its flags in `<linux/if.h>`; whether it runs stands elsewhere.
const FLAGS: [(u32, &str); 5] =
    [(0x1, "up"), (0x2, "broadcast"), (0x8, "loopback"), (0x10, "pointtopoint"), (0x1000, "multicast")];

/// An interface: names and values in the order in which RabbitMQ shows them. A name may come more than once.
struct Interface {
    name: String,
    facts: Vec<(&'static str, String)>,
}

/// Where interfaces and addresses stand.
struct Files {
    /// Sorted names with flags, state and hardware address.
    links: Vec<(String, u32, String, String)>,
    routes: String,
    trie: String,
    v6: String,
}

impl Files {
    fn read() -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let folder = Path::new("/sys/class/net");
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut links: Vec<_> = entries
            .filter_map(|entry| {
                let of = |file: &str| read(&entry.path().join(file)).trim().to_owned();
                let flags = u32::from_str_radix(of("flags").strip_prefix("0x")?, 16).ok()?;
                Some((entry.file_name().into_string().ok()?, flags, of("operstate"), of("address")))
            })
            .collect();
        links.sort();
        let net = Path::new("/proc/self/net");
        Self {
            links,
            routes: read(&net.join("route")),
            trie: read(&net.join("fib_trie")),
            v6: read(&net.join("if_inet6")),
        }
    }

    fn interfaces(&self) -> Vec<Interface> {
        let locals = local_addresses(&self.trie);
        let networks = networks(&self.routes);
        let one = |(name, flags, state, hardware): &(String, u32, String, String)| {
            let mut facts = Vec::new();
            if !hardware.is_empty() {
                facts.push(("hwaddr", hardware_address(hardware)));
            }
            for (address, mask) in v6_addresses(&self.v6, name) {
                facts.push(("netmask", mask.to_string()));
                facts.push(("addr", address.to_string()));
            }
            for &address in &locals {
                let Some(mask) = mask_on(address, name, *flags, &networks) else { continue };
                if flags & 0x2 != 0 {
                    let broadcast = Ipv4Addr::from(u32::from(address) | !u32::from(mask));
                    facts.push(("broadaddr", broadcast.to_string()));
                }
                facts.push(("netmask", mask.to_string()));
                facts.push(("addr", address.to_string()));
            }
            facts.push(("flags", words(*flags, state)));
            Interface { name: name.clone(), facts }
        };
        self.links.iter().map(one).collect()
    }
}

/// Addresses of this machine in the kernel's table of routes, in order.
fn local_addresses(trie: &str) -> Vec<Ipv4Addr> {
    let (mut found, mut leaf) = (Vec::new(), None);
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL") {
            found.extend(leaf);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Networks that are reached without a gateway: interface, address, mask.
fn networks(routes: &str) -> Vec<(&str, u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let one = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (network, gateway, mask) =
            (number(cells.get(1)?)?, number(cells.get(2)?)?, number(cells.get(7)?)?);
        (gateway == 0 && mask != 0).then_some((network, mask))
    };
    let lines = routes.lines().skip(1);
    lines
        .filter_map(|line| {
            let (network, mask) = one(line)?;
            Some((line.split_whitespace().next()?, network, mask))
        })
        .collect()
}

/// The mask of an address if it belongs to an interface: the kernel says which networks lie behind which.
fn mask_on(address: Ipv4Addr, name: &str, flags: u32, networks: &[(&str, u32, u32)]) -> Option<Ipv4Addr> {
    if address.is_loopback() {
        return (flags & 0x8 != 0).then_some(Ipv4Addr::new(255, 0, 0, 0));
    }
    let around = |(_, network, mask): &&(&str, u32, u32)| u32::from(address) & mask == *network;
    let (interface, _, mask) = networks.iter().filter(around).max_by_key(|(_, _, mask)| *mask)?;
    (*interface == name).then_some(Ipv4Addr::from(*mask))
}

fn v6_addresses(file: &str, name: &str) -> Vec<(Ipv6Addr, Ipv6Addr)> {
    let one = |line: &str| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let address = u128::from_str_radix(cells.first()?, 16).ok()?;
        let bits = u32::from_str_radix(cells.get(2)?, 16).ok()?;
        let mask = u128::MAX.checked_shl(128 - bits.min(128)).unwrap_or(0);
        (*cells.get(5)? == name).then_some((address.into(), mask.into()))
    };
    file.lines().filter_map(one).collect()
}

/// As Erlang prints it: no zeros in front, capital letters.
fn hardware_address(text: &str) -> String {
    let bytes = text.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap_or(0));
    bytes.map(|byte| format!("{byte:X}")).collect::<Vec<_>>().join(":")
}

fn words(flags: u32, state: &str) -> String {
    let runs = flags & 0x1 != 0 && matches!(state, "up" | "unknown");
    let mut words: Vec<&str> =
        FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| *word).collect();
    if runs {
        let at = words.iter().position(|word| *word == "multicast").unwrap_or(words.len());
        words.insert(at, "running");
    }
    words.join(", ")
}

/// The answer of `list_network_interfaces`.
pub(crate) fn listed() -> Answer {
    answer(&Files::read().interfaces())
}

fn answer(interfaces: &[Interface]) -> Answer {
    let text = |it: &Interface| {
        let lines: Vec<String> = it.facts.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("Interface {}\n\n{}\n", it.name, lines.concat())
    };
    let text = interfaces.iter().map(text).collect::<Vec<_>>().join("\n");
    let object = |it: &Interface| {
        let mut object = Map::new();
        for (name, value) in &it.facts {
            object.entry(*name).or_insert_with(|| value.as_str().into());
        }
        (it.name.clone(), Value::Object(object))
    };
    let object: Map<String, Value> = interfaces.iter().map(object).collect();
    let message = format!("Node {NODE_NAME} reported network interfaces");
    Answer::Facts { text, json: json!({"message": message, "result": "ok", "interfaces": object}) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Files {
        let link = |name: &str, flags, state: &str, address: &str| {
            (name.to_owned(), flags, state.to_owned(), address.to_owned())
        };
        Files {
            links: vec![
                link("eth0", 0x1003, "up", "02:fc:00:00:00:01"),
                link("ifb0", 0x82, "down", "8e:11:12:8d:06:f0"),
                link("lo", 0x9, "unknown", "00:00:00:00:00:00"),
            ],
            routes: "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                .into(),
            trie: "Main:\n  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.0\n        /8 host LOCAL\n     |-- 127.0.0.1\n\
                   \x20       /32 host LOCAL\n     |-- 192.0.2.2\n        /32 host LOCAL\n     |-- 192.0.2.255\n\
                   \x20       /32 link BROADCAST\nLocal:\n     |-- 192.0.2.2\n        /32 host LOCAL\n"
                .into(),
            v6: "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                 00000000000000000000000000000001 01 80 10 80       lo\n"
                .into(),
        }
    }

    #[test]
    fn interfaces_are_shown_as_rabbitmq_shows_them() {
        let Answer::Facts { text, json } = answer(&sample().interfaces()) else { panic!() };
        let wanted = "Interface eth0\n\nhwaddr: 2:FC:0:0:0:1\nnetmask: ffff:ffff:ffff:ffff::\naddr: fe80::fc:ff:fe00:1\n\
                      broadaddr: 192.0.2.255\nnetmask: 255.255.255.0\naddr: 192.0.2.2\nflags: up, broadcast, running, multicast\n\n\n\
                      Interface ifb0\n\nhwaddr: 8E:11:12:8D:6:F0\nflags: broadcast\n\n\n\
                      Interface lo\n\nhwaddr: 0:0:0:0:0:0\nnetmask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff\naddr: ::1\n\
                      netmask: 255.0.0.0\naddr: 127.0.0.1\nflags: up, loopback, running\n\n";
        assert_eq!(text, wanted);
        assert_eq!(json["interfaces"]["lo"]["addr"], "::1");
        assert_eq!(json["interfaces"]["eth0"]["broadaddr"], "192.0.2.255");
    }

    #[test]
    fn files_that_are_not_there_or_make_no_sense_show_nothing() {
        let empty = Files {
            links: Vec::new(),
            routes: String::new(),
            trie: "|-- x\n/32 host LOCAL".into(),
            v6: "1 2".into(),
        };
        assert!(empty.interfaces().is_empty());
        assert!(networks("head\neth0 zz 00000000\n").is_empty() && v6_addresses("zz zz zz", "lo").is_empty());
    }
}
