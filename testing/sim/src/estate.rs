//! Actions of operators and clocks: policies that come and go, vhosts that are filled and deleted, wall clocks that are set.
//! Knows nothing of messages beyond that those in a foreign vhost must be whole.

use std::sync::{Arc, Weak};

use broker::{Broker, Commit, Incoming, PublishChannel, Publisher, QueueDeclare, Refused, Unseen, Vhost};
use metadata::{ApplyTo, ClearPolicy, Command, PolicyDefinition, SetPolicy};
use wire::amqp091::Table;

use crate::history::History;
use crate::kinds::{self, POLICED};
use crate::life::Life;
use crate::model::{self, Presence, Seen};
use crate::session::Session;

/// The vhost that comes and goes.
const OTHER: &str = "other";

/// Its queue.
const QUEUE: &[u8] = b"kept";

/// How far the wall clock is set, forwards or backwards.
const JUMP_MS_MAX: u64 = 30_000;

impl History {
    /// An administrator sets the clock.
    pub(crate) fn set_clock(&mut self) {
        // A message that was due before the clock is set back is gone, or on its way.
        self.let_time_pass();
        let (now_ms, jump_ms) = (self.now_ms(), self.world.below(JUMP_MS_MAX));
        let forwards = self.world.random.chance(1, 2);
        self.world.clock.set_wall_ms(if forwards { now_ms + jump_ms } else { now_ms - jump_ms });
        self.tell(&|| format!("{}: the clock is set to {}", self.now, self.now_ms()));
        self.model.expire(self.now_ms());
    }

    /// A policy for one queue is set or cleared.
    pub(crate) fn rule(&mut self, life: &mut Life) -> Result<(), String> {
        let (vhost, name) = (b"/".as_slice().into(), Box::from("sim"));
        let limit = self.world.below(60);
        let definition = match self.world.below(5) {
            0 => None,
            1 => Some(format!("{{\"message-ttl\":{}}}", limit * 50)),
            2 => Some(format!("{{\"max-length\":{limit},\"overflow\":\"reject-publish\"}}")),
            3 => Some(format!("{{\"max-length-bytes\":{}}}", limit * 200)),
            _ => Some(format!("{{\"max-length\":{limit}}}")),
        };
        let command = match &definition {
            None => Command::ClearPolicy(ClearPolicy { vhost, name }),
            Some(definition) => Command::SetPolicy(SetPolicy {
                vhost,
                name,
                pattern: format!("^{}$", kinds::name(POLICED)).into(),
                apply_to: ApplyTo::Queues,
                priority: 0,
                definition: PolicyDefinition::from_json(definition).ok_or("a definition that is none")?,
            }),
        };
        self.tell(&|| format!("{}: policy {definition:?}", self.now));
        let asked = life.broker.apply(command);
        match asked.and_then(|call| life.followed(&self.world.random, call)) {
            Ok(_) => {}
            // There is none to clear.
            Err(_) if definition.is_none() || life.is_faulty => return Ok(()),
            Err(refused) => return Err(format!("a policy is refused: {refused:?}")),
        }
        if definition.is_some_and(|text| text.ends_with(&format!("\"max-length\":{limit}}}"))) {
            self.check_length(life, limit)?;
        }
        self.look(life)
    }

    /// A limit that has been set holds, whatever was there, as soon as the disk has brought back what has to go.
    fn check_length(&self, life: &mut Life, max: u64) -> Result<(), String> {
        if self.model.presence[POLICED] != Presence::Present || life.is_faulty {
            return Ok(());
        }
        life.driver.run_until_idle();
        let queue = life.queue(POLICED).ok_or("the queue with policies is not there")?;
        let ready = queue.stats().try_take().ok_or("statistics are not answered")?.ready;
        if ready <= max { Ok(()) } else { Err(format!("{ready} messages are ready under a policy of {max}")) }
    }

    /// The other vhost is made, filled, emptied or deleted.
    pub(crate) fn visit_other_vhost(&mut self, life: &mut Life) -> Result<(), String> {
        let there = life.broker.vhost(OTHER);
        if let Some(vhost) = there {
            if !self.world.random.chance(1, 3) {
                return self.use_vhost(life, &vhost);
            }
            drop(vhost);
            return self.delete_vhost(life);
        }
        let asked = add_vhost(&life.broker);
        match asked.and_then(|call| life.followed(&self.world.random, call)) {
            Ok(_) => Ok(()),
            Err(_) if life.is_faulty => Ok(()),
            Err(refused) => Err(format!("a vhost is refused: {refused:?}")),
        }
    }

    /// Declares, publishes and fetches in it, and goes.
    fn use_vhost(&mut self, life: &mut Life, vhost: &Arc<Vhost>) -> Result<(), String> {
        let user = life.broker.authenticate("guest", b"guest", true).ok_or("there is no guest")?;
        let session = Arc::new(Session::default());
        let id = life.broker.next_connection_id();
        let opened = life.broker.open_connection(user, vhost.name(), id, Arc::new(Unseen));
        // The permissions may be lost, or not be there yet.
        let Ok(principal) = opened else { return Ok(()) };
        let declare = QueueDeclare {
            name: QUEUE,
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Table::from_raw(&[]),
        };
        let declared = life.broker.declare_queue(&principal, declare);
        if declared.and_then(|declared| life.followed(&self.world.random, declared.counts)).is_ok() {
            let mut channel = PublishChannel::new();
            channel.enable_confirms(session);
            let mut publisher = Publisher::new(&life.broker, &principal);
            for id in 0..self.world.below(40) {
                let body = model::body(id, usize::try_from(self.world.below(800)).expect("small"));
                let properties = [0x10, 0x00, 2];
                let (exchange, routing_key) = (b"".as_slice(), QUEUE);
                let message = Incoming {
                    mandatory: false,
                    exchange,
                    routing_key,
                    properties: &properties,
                    body: &body,
                };
                if publisher.publish(&mut channel, message).is_err() && !life.is_faulty {
                    return Err("a publish to the other vhost is refused".into());
                }
            }
            drop(publisher);
            if let Ok((_, mut call)) = life.broker.get(&principal, QUEUE, false) {
                let steps = self.world.below(8);
                life.step(&self.world.random, steps);
                if let Some(Ok(Some(got))) = call.try_take() {
                    Seen::read(&got.properties, &got.body)?;
                }
            }
        }
        life.broker.close_connection(&principal);
        Ok(())
    }

    /// It goes with all that it holds: nothing may be left of it in memory.
    fn delete_vhost(&mut self, life: &mut Life) -> Result<(), String> {
        let gone: Weak<Vhost> = life.broker.vhost(OTHER).as_ref().map_or_else(Weak::new, Arc::downgrade);
        match life.broker.delete_vhost(OTHER) {
            Ok(_) => {}
            Err(_) if life.is_faulty => return Ok(()),
            Err(refused) => return Err(format!("the deletion of a vhost is refused: {refused:?}")),
        }
        life.driver.run_until_idle();
        self.look(life)?;
        if gone.strong_count() > 0 && !life.is_faulty {
            return Err("a vhost is deleted and still in memory".into());
        }
        Ok(())
    }

    /// The other vhost goes for good.
    pub(crate) fn leave_other_vhost(&mut self, life: &mut Life) -> Result<(), String> {
        if life.broker.vhost(OTHER).is_some() { self.delete_vhost(life) } else { Ok(()) }
    }
}

fn add_vhost(broker: &Broker) -> Result<Commit, Refused> {
    let all = [".*", ".*", ".*"].map(str::to_owned);
    broker.add_vhost(OTHER).and_then(|_| broker.set_permissions("guest", OTHER, &all))
}
