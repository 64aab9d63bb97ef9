//! start-ok, tune-ok, open: the actions of a session at each step of the handshake.

use std::collections::VecDeque;

use broker::Publisher;
use wire::amqp091::methods::connection::{Open, OpenOk, StartOk, TuneOk};

use super::super::channel::Channels;
use super::super::errors::{Failure, Outcome, ReplyCode};
use super::super::frames::Room;
use super::super::handshake::{Client, LoginError, encode_tune, login, negotiate};
use super::super::running::{Alarm, Running};
use super::{Amqp091, Phase, REFUSED_TIMEOUT_MS, Session, payload_bytes_max};
use crate::budget::Share;
use crate::connection::Protocol as _;
use crate::login::Mechanism;
use crate::overdue::Overdue;
use crate::refusals::open_text;
use crate::settlements::Settlements;

impl Session {
    pub(super) fn start_ok(&mut self, start_ok: &StartOk<'_>) -> Outcome {
        self.own.client = Client::of(start_ok.client_properties);
        self.outbox.lock().state().cancel_notify = self.own.client.consumer_cancel_notify;
        {
            let mut info = self.control.info.lock();
            info.client_properties = start_ok.client_properties.raw().into();
            info.user_provided_name.clone_from(&self.own.client.connection_name);
            info.auth_mechanism = start_ok.mechanism.str_lossy().into_owned();
        }
        let info = self.control.info.lock().clone();
        let logged_in = match &self.own.internal {
            Some(user) => Ok((user.clone(), Mechanism::Plain)),
            None => login(&self.broker, &self.settings, &self.peer, start_ok, &info),
        };
        match logged_in {
            Ok((user, mechanism)) => {
                self.control.info.lock().user = user.name.to_string();
                self.own.login = Some((user, mechanism));
                encode_tune(&self.settings, self.outbox.lock().bytes());
                self.enter(Phase::Tuning);
                Ok(())
            }
            // B15: told only to those that asked for it; others have to wait, so that guessing takes time.
            Err(LoginError::Refused(failure)) => {
                self.log_refused_login();
                if self.own.client.authentication_failure_close {
                    return Err(failure);
                }
                self.linger(REFUSED_TIMEOUT_MS);
                Ok(())
            }
            Err(LoginError::Malformed(failure)) => Err(failure),
        }
    }

    pub(super) fn tune_ok(&mut self, tune_ok: &TuneOk) -> Outcome {
        self.own.limits = negotiate(&self.settings, tune_ok)?;
        self.own.payload_bytes_max = payload_bytes_max(self.own.limits.frame_size_max);
        self.outbox.lock().state().frame_size_max = self.own.limits.frame_size_max as usize;
        let mut info = self.control.info.lock();
        info.heartbeat_s = self.own.limits.heartbeat_s;
        info.frame_max = self.own.limits.frame_size_max;
        info.channel_max = self.own.limits.channel_max;
        drop(info);
        self.enter(Phase::Opening);
        Ok(())
    }

    pub(super) fn open(&mut self, open: &Open<'_>) -> Outcome {
        let (user, _) = self.own.login.clone().expect("nobody gets to opening without a login");
        let vhost = open.virtual_host.str_lossy().into_owned();
        self.control.info.lock().vhost.clone_from(&vhost);
        let name = user.name.clone();
        let id = self.broker.next_connection_id();
        let opened = self.broker.open_connection(user, &vhost, id, self.control.clone());
        let principal = opened.map_err(|error| {
            Failure::new(ReplyCode::NotAllowed, open_text(&error, &name, &vhost)).in_method(Open::ID)
        })?;
        self.running = Some(Box::new(Running {
            broker: self.broker.clone(),
            settings: self.settings.clone(),
            publisher: Publisher::new(&self.broker, &principal),
            principal,
            sink: self.own.sink.clone(),
            channels: Channels::default(),
            channel_max: self.own.limits.channel_max,
            payload_bytes_max: self.own.payload_bytes_max,
            settlements: Settlements::new(),
            gathered: Vec::new(),
            pending: VecDeque::new(),
            barrier: false,
            has_asked_leader: false,
            overdue: Overdue::default(),
            token_latest: 0,
            random: self.peer.seed,
            unfinished: Share::new(self.settings.unfinished.clone()),
            room: Room::default(),
            spare_body: Vec::new(),
            active: Vec::new(),
            active_latest: 0,
            has_freed_window: false,
            publisher_full: false,
            is_publishing: false,
            output_full: false,
            alarm: Alarm::default(),
            blocked_capability: self.own.client.blocked,
            resumable: Vec::new(),
        }));
        self.write(OpenOk::default());
        self.enter(Phase::Running);
        Amqp091::heed_news(self);
        self.log_let_in();
        Ok(())
    }
}
