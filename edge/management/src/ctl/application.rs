//! The broker as an application of the process: an operator stops it, starts it, empties it and makes it join others while the process and
//! its control socket stay. Refuses to know how any of that is done: it hands orders to the server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::Broker;
use broker::cluster::NodeName;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::ctl::commands::{Commands, Outcome, arguments, usage};
use crate::ctl::protocol::{Answer, Exit, Failure, Request};
use crate::resources::node::{NODE_NAME, Node};

/// Orders that wait for the server; further commands wait for room.
const ORDERS_MAX: usize = 16;

/// The server's task with its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// `start_app`: opens it, and answers when clients may connect.
    Start,
    /// `stop_app`: closes it, and answers when its files are closed.
    Stop,
    /// `reset`: leaves the cluster, if it is in one, and deletes what lasts.
    Reset,
    /// `force_reset`: deletes what lasts, and tells nobody.
    ForceReset,
    /// `force_boot`: the next start goes without the other nodes.
    ForceBoot,
    /// `join_cluster`: becomes a member of the cluster of this node.
    Join {
        /// A member.
        node: NodeName,
        /// `HOST:PORT` of its links; `None` for the host of its name and the usual port.
        address: Option<String>,
    },
}

/// An order, and the caller that waits for its answer.
#[derive(Debug)]
pub struct Asked {
    /// The task.
    pub order: Order,
    reply: oneshot::Sender<Result<(), Failure>>,
}

impl Asked {
    /// Answers it.
    pub fn answer(self, answer: Result<(), Failure>) {
        // The client that asked may have gone.
        let _gone = self.reply.send(answer);
    }
}

/// The orders of operators, one after the other.
pub type Orders = mpsc::Receiver<Asked>;

/// The broker that runs at present, and the way to the server.
pub struct Application {
    running: Mutex<Option<(Broker, Arc<Node>)>>,
    is_opening: AtomicBool,
    orders: mpsc::Sender<Asked>,
    stop: Arc<Notify>,
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_running = self.running.lock().is_some();
        f.debug_struct("Application").field("is_running", &is_running).finish_non_exhaustive()
    }
}

impl Application {
    /// One whose broker does not run yet.
    #[must_use]
    pub fn new() -> (Arc<Application>, Orders) {
        let (sender, orders) = mpsc::channel(ORDERS_MAX);
        let application = Application {
            running: Mutex::default(),
            is_opening: AtomicBool::new(false),
            orders: sender,
            stop: Arc::default(),
        };
        (Arc::new(application), orders)
    }

    /// Told when an operator asks the process to end; for [`Node::stop`], too.
    #[must_use]
    pub fn stop(&self) -> Arc<Notify> {
        self.stop.clone()
    }

    /// A broker is being opened.
    pub fn opening(&self) {
        self.is_opening.store(true, Ordering::Relaxed);
    }

    /// From now on commands are for this broker.
    pub fn opened(&self, broker: Broker, node: Node) {
        self.is_opening.store(false, Ordering::Relaxed);
        *self.running.lock() = Some((broker, Arc::new(node)));
    }

    /// From now on commands that need a broker are refused.
    pub fn closed(&self) {
        self.is_opening.store(false, Ordering::Relaxed);
        *self.running.lock() = None;
    }

    pub(crate) fn running(&self) -> Option<(Broker, Arc<Node>)> {
        self.running.lock().clone()
    }

    /// The answer to a command while no broker runs.
    pub(crate) fn run_stopped(&self, request: &Request) -> Answer {
        let is_opening = self.is_opening.load(Ordering::Relaxed);
        if is_opening && request.command == "is_booting" {
            let text = format!("RabbitMQ on node {NODE_NAME} is booting");
            return Answer::facts(text.clone(), json!({"message": text, "result": true}));
        }
        run_stopped(request)
    }

    /// Has the server do it.
    pub(crate) async fn order(&self, order: Order) -> Outcome {
        let needs_stopped = matches!(order, Order::Reset | Order::ForceReset | Order::ForceBoot);
        if needs_stopped && self.running.lock().is_some() {
            return Err(must_be("stopped", "Stop", "stop_app"));
        }
        let ending = || Failure::new(Exit::UNAVAILABLE, "Error:\nThe node is stopping");
        let (reply, answered) = oneshot::channel();
        self.orders.send(Asked { order, reply }).await.map_err(|_| ending())?;
        answered.await.map_err(|_| ending())?.map(|()| Answer::done())
    }
}

fn must_be(state: &str, verb: &str, command: &str) -> Failure {
    let text = format!(
        "Error: this command requires the 'rabbit' app to be {state} on the target node. {verb} it with 'rabbitmqctl {command}'."
    );
    Failure::new(Exit::USAGE, text)
}

/// The order that a command stands for; `None` for commands that are none.
pub(crate) fn order_of(request: &Request) -> Option<Result<Order, Failure>> {
    let order = match request.command.as_str() {
        "start_app" => Order::Start,
        "stop_app" => Order::Stop,
        "reset" => Order::Reset,
        "force_boot" => Order::ForceBoot,
        "force_reset" => Order::ForceReset,
        "join_cluster" => return Some(join(request)),
        _ => return None,
    };
    Some(arguments::<0>(request).map(|[]| order))
}

fn join(request: &Request) -> Result<Order, Failure> {
    let [name] = arguments(request)?;
    if *NODE_NAME == *name {
        let text = format!("Error:\nError: cannot cluster node with itself: {name}");
        return Err(Failure::new(Exit::SOFTWARE, text));
    }
    let node = NodeName::new(name).map_err(|error| usage(&error.to_string()))?;
    Ok(Order::Join { node, address: request.options.get("address").cloned() })
}

/// The answer of a node whose broker neither runs nor starts.
fn run_stopped(request: &Request) -> Answer {
    let is_down = format!(
        "RabbitMQ on node {NODE_NAME} is not running or has not fully booted yet (check with is_booting)"
    );
    let text = match request.command.as_str() {
        "ping" => return Answer::Done { ok: "Ping succeeded".into() },
        "stop" | "shutdown" => return Answer::done(),
        "is_running" => return Answer::facts(is_down.clone(), json!({"message": is_down, "result": false})),
        "is_booting" => return super::node::booting(),
        "check_running" => format!("Error:\n{is_down}"),
        _ => return Answer::Failed(must_be("running", "Start", "start_app")),
    };
    Answer::Failed(Failure::new(Exit::UNAVAILABLE, text))
}

/// The same names for callers that come another way than by the control socket.
pub(crate) const COMMANDS: Commands = &[
    ("start_app", |it| from_elsewhere(it.request)),
    ("stop_app", |it| from_elsewhere(it.request)),
    ("reset", |it| from_elsewhere(it.request)),
    ("force_reset", |it| from_elsewhere(it.request)),
    ("force_boot", |it| from_elsewhere(it.request)),
    ("join_cluster", |it| from_elsewhere(it.request)),
];

/// Over HTTP, which ends with the broker: it runs, and cannot be closed this way.
fn from_elsewhere(request: &Request) -> Outcome {
    match order_of(request).transpose()? {
        Some(Order::Start) => Ok(Answer::done()),
        Some(Order::Reset | Order::ForceReset | Order::ForceBoot) => {
            Err(must_be("stopped", "Stop", "stop_app"))
        }
        _ => Err(Failure::new(
            Exit::UNAVAILABLE,
            "Error:\nThis command is not run over HTTP, which ends with the broker: run it on the machine of the node",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> Request {
        let mut words = line.split(' ').map(str::to_owned);
        Request { command: words.next().unwrap(), args: words.collect(), ..Request::default() }
    }

    fn refusal(outcome: Option<Result<Order, Failure>>) -> (u8, String) {
        let failure = outcome.unwrap().unwrap_err();
        (failure.exit, failure.error)
    }

    #[test]
    fn commands_become_orders() {
        assert_eq!(order_of(&request("stop_app")), Some(Ok(Order::Stop)));
        assert_eq!(order_of(&request("list_queues")), None);
        let node = NodeName::new("rabbit@mq1").unwrap();
        assert_eq!(
            order_of(&request("join_cluster rabbit@mq1")),
            Some(Ok(Order::Join { node, address: None }))
        );
        assert_eq!(refusal(order_of(&request("stop_app extra"))).0, Exit::USAGE);
        let with_itself = format!("join_cluster {NODE_NAME}");
        assert_eq!(refusal(order_of(&request(&with_itself))).0, Exit::SOFTWARE);
    }

    #[test]
    fn a_stopped_node_answers_signs_of_life_and_refuses_the_rest() {
        let failed = |line: &str| match run_stopped(&request(line)) {
            Answer::Failed(failure) => Some((failure.exit, failure.error)),
            _ => None,
        };
        for answered in ["ping", "is_running", "is_booting", "stop"] {
            assert_eq!(failed(answered), None, "{answered}");
        }
        assert_eq!(failed("check_running").unwrap().0, Exit::UNAVAILABLE);
        let (exit, error) = failed("list_queues").unwrap();
        assert_eq!(exit, Exit::USAGE);
        assert!(error.ends_with("Start it with 'rabbitmqctl start_app'."), "{error}");
    }

    #[tokio::test]
    async fn an_order_is_answered_by_the_server_and_refused_when_there_is_none_any_more() {
        let (application, mut orders) = Application::new();
        let asking = application.clone();
        let asked = tokio::spawn(async move { asking.order(Order::Stop).await });
        let order = orders.recv().await.unwrap();
        assert_eq!(order.order, Order::Stop);
        order.answer(Ok(()));
        assert_eq!(asked.await.unwrap(), Ok(Answer::done()));
        drop(orders);
        assert_eq!(application.order(Order::Start).await.unwrap_err().exit, Exit::UNAVAILABLE);
    }
}
