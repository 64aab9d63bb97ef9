//! Listeners as commands show and check them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::ctl::commands::{Outcome, arguments, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::{LISTENER_PROTOCOL, NODE_NAME, Node, NodeListener};

/// Longest attempt to connect to one of our own listeners.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The listeners as RabbitMQ writes them in JSON.
pub(super) fn listener_objects(node: &Node) -> Value {
    node.listeners.iter().map(listener_object).collect()
}

fn listener_object(it: &NodeListener) -> Value {
    object_of(&NODE_NAME, it.address, it.protocol, it.purpose)
}

/// A listener of some node.
pub(super) fn object_of(node: &str, address: SocketAddr, protocol: &str, purpose: &str) -> Value {
    json!({
        "node": node,
        "port": address.port(),
        "protocol": protocol,
        "interface": interface(address.ip()),
        "purpose": purpose,
    })
}

/// The same for people.
pub(super) fn line_of(address: SocketAddr, protocol: &str, purpose: &str) -> String {
    let (interface, port) = (interface(address.ip()), address.port());
    format!("interface: {interface}, port: {port}, protocol: {protocol}, purpose: {purpose}")
}

fn interface(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// One line for each listener.
pub(super) fn listener_lines(node: &Node) -> String {
    let line = |it: &NodeListener| format!("I{}", &line_of(it.address, it.protocol, it.purpose)[1..]);
    node.listeners.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(super) fn listeners(node: &Node) -> Answer {
    let json = json!({"node": NODE_NAME, "result": "ok", "listeners": listener_objects(node)});
    Answer::facts(listener_lines(node), json)
}

fn ports(node: &Node) -> String {
    let mut ports: Vec<u16> = node.listeners.iter().map(|it| it.address.port()).collect();
    ports.sort_unstable();
    ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn port_listener(node: &Node, request: &Request) -> Outcome {
    let [text] = arguments(request)?;
    let Ok(port) = text.parse::<u16>() else {
        let problem = "Error (argument validation): Bad argument: Argument must be a positive integer";
        return Err(Failure::new(Exit::DATA, problem));
    };
    if node.listeners.iter().any(|it| it.address.port() == port) {
        let said = format!("A listener for port {port} is running on node {NODE_NAME}.");
        return Ok(Answer::facts(said, json!({"node": NODE_NAME, "port": text, "result": "ok"})));
    }
    let text = format!(
        "No listener for port {port} is active on node {NODE_NAME}. Found listeners that use the following ports: {}",
        ports(node)
    );
    let ports: Vec<u16> = node.listeners.iter().map(|it| it.address.port()).collect();
    let listeners = listener_objects(node);
    // RabbitMQ writes the ports as the letters of those numbers.
    let json =
        json!({"result": "error", "missing": port.to_string(), "ports": ports, "listeners": listeners});
    Err(Failure::new(Exit::UNAVAILABLE, text).with_json(json))
}

pub(super) fn protocol_listener(node: &Node, request: &Request) -> Outcome {
    let [text] = arguments(request)?;
    let asked = match text.to_ascii_lowercase().as_str() {
        "amqp091" | "amqp0.9.1" | "amqp-0-9-1" => LISTENER_PROTOCOL.to_owned(),
        other => other.to_owned(),
    };
    if node.listeners.iter().any(|it| it.protocol == asked) {
        let said = format!("A listener for protocol {text} is running on node {NODE_NAME}.");
        return Ok(Answer::facts(said, json!({"node": NODE_NAME, "protocol": text, "result": "ok"})));
    }
    let mut found: Vec<&str> = node.listeners.iter().map(|it| it.protocol).collect();
    let listeners = listener_objects(node);
    let json = json!({"result": "error", "missing": asked, "protocols": found, "listeners": listeners});
    found.sort_unstable();
    found.dedup();
    let found = found.join(", ");
    let text = format!(
        "Error:\nNo listener for protocol {text} is active on node {NODE_NAME}. Found listeners for the following \
         protocols: {found}"
    );
    Err(Failure::new(Exit::UNAVAILABLE, text).with_json(json))
}

/// Where this process reaches its own listener.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let address = match bound.ip() {
        IpAddr::V4(any) if any.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(any) if any.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        address => address,
    };
    SocketAddr::new(address, bound.port())
}

pub(super) fn port_connectivity(node: &Node, request: &Request) -> Outcome {
    let target = request.options.get("address").map(|text| text.parse::<IpAddr>());
    let target = target.transpose().map_err(|_| usage("--address is an IP address"))?;
    for listener in &node.listeners {
        let mut address = reachable(listener.address);
        if let Some(ip) = target {
            address.set_ip(ip);
        }
        if let Err(error) = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            let text = format!("Error:\nConnection to {address} on node {NODE_NAME} failed: {error}");
            let failures = [listener_object(listener)];
            let json = json!({"result": "error", "node": NODE_NAME, "failures": failures});
            return Err(Failure::new(Exit::UNAVAILABLE, text).with_json(json));
        }
    }
    let by = target.map(|ip| format!(" (using {ip} for target IP address)")).unwrap_or_default();
    let said = format!("Successfully connected to ports {} on node {NODE_NAME}{by}", ports(node));
    Ok(Answer::facts(said, json!({"node": NODE_NAME, "result": "ok", "listeners": listener_objects(node)})))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::node::tests::sample;

    fn request(argument: &str) -> Request {
        Request { args: vec![argument.into()], ..Request::default() }
    }

    #[test]
    fn a_listener_is_found_by_port_and_by_protocol() {
        let node = sample();
        assert!(port_listener(&node, &request("1")).is_ok());
        assert_eq!(port_listener(&node, &request("2")).unwrap_err().exit, Exit::UNAVAILABLE);
        assert_eq!(port_listener(&node, &request("x")).unwrap_err().exit, Exit::DATA);
        assert!(protocol_listener(&node, &request("amqp091")).is_ok());
        assert!(protocol_listener(&node, &request("mqtt")).unwrap_err().error.ends_with("protocols: amqp"));
        assert_eq!(
            listener_lines(&node),
            "Interface: 127.0.0.1, port: 1, protocol: amqp, purpose: AMQP 0-9-1"
        );
    }

    #[test]
    fn a_listener_that_does_not_answer_fails_the_check() {
        assert!(port_connectivity(&sample(), &Request::default()).is_err());
    }
}
