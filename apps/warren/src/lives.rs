//! The lives of the broker within one process: it is opened at the start, and closed and opened again when an operator asks for that
//! (`stop_app`, `start_app`, `reset`). Between two lives only the control socket answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use management::{Application, Asked, ControlSocket, Exit, Failure, Order, Orders, SOCKET_NAME};
use tokio::runtime::{Builder, Runtime};

use crate::cluster::membership;
use crate::config::Options;
use crate::pid_file::PidFile;
use crate::server::{self, Ended};
use crate::signals::Signals;
use crate::{emptying, start_lines};

/// How long tasks of a closed broker, and commands that run at the end, may take to finish.
const TASKS_TIMEOUT: Duration = Duration::from_secs(1);

/// The process around the broker.
pub(crate) struct Process {
    /// The decision of an operator.
    pub(crate) options: Options,
    /// The broker that runs, for the control socket.
    pub(crate) application: Arc<Application>,
    orders: Orders,
    /// Callers that wait until the broker runs, and the answer that each wants.
    waiting: Vec<(Asked, Result<(), Failure>)>,
    /// Queues that the node had when its broker was closed or it was emptied; `None` when nobody knows.
    pub(crate) queues: Option<usize>,
    /// The order that is obeyed has closed the broker.
    was_running: bool,
    control: Runtime,
    has_socket: bool,
}

/// The meaning of `start_app` at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The broker runs: there is nothing to do.
    IsDone,
    /// It is being opened: the answer comes with that.
    Waits,
}

/// The next step after a life.
enum Next {
    Open,
    Wait,
    End,
}

/// Runs a broker until SIGTERM or SIGINT.
///
/// # Errors
/// The first start fails, or files cannot be closed.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let began = Instant::now();
    start_lines::starting(options);
    let _pid_file = PidFile::write_if_wanted()?;
    platform::memory::merge_freed_at_once();
    tracing::info!(limit = platform::open_files::allow_most(), "open files, connections included");
    let control = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("control")
        .on_thread_start(platform::profile::register_thread)
        .build()?;
    let (application, orders) = Application::new();
    let mut process = Process {
        options: options.clone(),
        application,
        orders,
        waiting: Vec::new(),
        queues: None,
        was_running: false,
        control,
        has_socket: false,
    };
    let lived = process.live(began);
    // A control command may still wait for a log that has ended; nobody waits for the command any more.
    process.control.shutdown_timeout(TASKS_TIMEOUT);
    lived
}

impl Process {
    fn live(&mut self, mut began: Instant) -> anyhow::Result<()> {
        let mut is_first = true;
        loop {
            let ended = self.one_life(began);
            let next = match ended {
                Ok(Ended::Process) => Next::End,
                Ok(Ended::Order(asked)) => {
                    self.start_given_up();
                    self.was_running = true;
                    self.obey(asked)
                }
                Err(error) if is_first => return Err(error),
                Err(error) => self.start_failed(&error),
            };
            is_first = false;
            let open = match next {
                Next::Open => true,
                Next::Wait => self.wait(),
                Next::End => false,
            };
            if !open {
                return Ok(());
            }
            began = Instant::now();
        }
    }

    /// Opens the broker, and runs it until something ends it.
    fn one_life(&mut self, began: Instant) -> anyhow::Result<Ended> {
        emptying::go_on(&self.options.node.data_dir)?;
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .thread_name("edge")
            .on_thread_start(platform::profile::register_thread)
            .on_thread_park(net::thread_sleeps)
            .build()?;
        self.application.opening();
        let ended = runtime.block_on(server::serve(self, began));
        self.application.closed();
        runtime.shutdown_timeout(TASKS_TIMEOUT);
        ended
    }

    /// Answers commands from now on; the lock of the data folder is held.
    pub(crate) fn listen(&mut self) {
        if self.has_socket {
            return;
        }
        self.has_socket = true;
        let _inside = self.control.enter();
        match ControlSocket::bind(&self.options.node.data_dir.join(SOCKET_NAME)) {
            Ok(socket) => drop(self.control.spawn(socket.serve(self.application.clone()))),
            Err(error) => {
                tracing::warn!(%error, "no control socket: `warren ctl` cannot reach this server");
            }
        }
    }

    /// The broker runs: commands are answered, and waiting callers are told.
    pub(crate) fn ready(&mut self) {
        self.listen();
        for (asked, answer) in self.waiting.drain(..) {
            asked.answer(answer);
        }
    }

    /// The next order that the broker has to be closed for.
    pub(crate) async fn closing_order(&mut self, start: Start) -> Asked {
        loop {
            match (self.orders.recv().await, start) {
                (Some(asked), Start::IsDone) if asked.order == Order::Start => asked.answer(Ok(())),
                (Some(asked), Start::Waits) if asked.order == Order::Start => {
                    self.waiting.push((asked, Ok(())));
                }
                (Some(asked), _) => return asked,
                (None, _) => std::future::pending().await,
            }
        }
    }

    /// Does the work that the broker was closed for, or an operator's request to one that is stopped.
    fn obey(&mut self, asked: Asked) -> Next {
        let (options, dir) = (&self.options, &self.options.node.data_dir);
        let was_running = std::mem::take(&mut self.was_running);
        let done = match &asked.order {
            Order::Start => {
                self.waiting.push((asked, Ok(())));
                return Next::Open;
            }
            Order::Stop => Ok(()),
            Order::Reset => membership::leave(&self.control, options).and_then(|()| emptying::empty(dir)),
            Order::ForceReset => emptying::empty(dir),
            Order::ForceBoot => membership::force_boot(dir),
            Order::Join { node, address } => {
                membership::join(&self.control, options, node, address.as_deref(), self.queues)
            }
        };
        if matches!(asked.order, Order::Reset | Order::ForceReset) && done.is_ok() {
            self.queues = Some(0);
        }
        let answer = done.map_err(|error| failed(&error));
        // RabbitMQ joins a node that runs, too, and starts it again.
        if was_running && matches!(asked.order, Order::Join { .. }) {
            self.waiting.push((asked, answer));
            return Next::Open;
        }
        asked.answer(answer);
        Next::Wait
    }

    /// Another order has come before the broker was open.
    fn start_given_up(&mut self) {
        for (asked, answer) in self.waiting.drain(..) {
            let text = "Error:\nthe start has ended: another command came before the node was ready";
            asked.answer(answer.and(Err(Failure::new(Exit::UNAVAILABLE, text))));
        }
    }

    fn start_failed(&mut self, error: &anyhow::Error) -> Next {
        tracing::error!("the broker has not started: {error:#}");
        for (asked, answer) in self.waiting.drain(..) {
            asked.answer(answer.and(Err(failed(error))));
        }
        Next::Wait
    }

    /// Obeys operators while no broker runs; false when the process is to end.
    fn wait(&mut self) -> bool {
        tracing::info!("the broker is stopped; `start_app` starts it");
        let stop = self.application.stop();
        let signals = {
            let _inside = self.control.enter();
            Signals::new()
        };
        let Ok(mut signals) = signals else { return false };
        loop {
            let asked = self.control.block_on(async {
                tokio::select! {
                    asked = self.orders.recv() => asked,
                    () = signals.come() => None,
                    () = stop.notified() => None,
                }
            });
            let Some(asked) = asked else { return false };
            match self.obey(asked) {
                Next::Open => return true,
                Next::Wait => {}
                Next::End => return false,
            }
        }
    }
}

fn failed(error: &anyhow::Error) -> Failure {
    Failure::new(Exit::UNAVAILABLE, format!("Error:\n{error:#}"))
}
