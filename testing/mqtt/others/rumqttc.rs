//! rumqttc against a broker: `rumqttc-suite PORT`. The same scenarios with version 3.1.1 and with version 5; each prints its name when it
//! has passed, and ends the program when it has not.

use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(15);
const MESSAGES: usize = 200;

macro_rules! scenarios {
    () => {
        struct Session {
            client: Client,
            connection: Connection,
            has_session: bool,
        }

        impl Session {
            fn open(port: u16, id: &str, keeps: bool, will: Option<LastWill>) -> Session {
                let mut options = options(id, port, keeps);
                options.set_credentials("guest", "guest");
                if let Some(will) = will {
                    options.set_last_will(will);
                }
                let (client, connection) = Client::new(options, MESSAGES * 2);
                let mut session = Session { client, connection, has_session: false };
                session.has_session = session.until(|packet| match packet {
                    Packet::ConnAck(ack) => Some(ack.session_present),
                    _ => None,
                });
                session
            }

            /// Drives the connection until something comes.
            fn until<T>(&mut self, mut wanted: impl FnMut(&Packet) -> Option<T>) -> T {
                loop {
                    let event = self.connection.recv_timeout(PATIENCE).expect("nothing comes");
                    match event.expect("the connection is lost") {
                        Event::Incoming(packet) => {
                            if let Some(found) = wanted(&packet) {
                                return found;
                            }
                        }
                        Event::Outgoing(_) => {}
                    }
                }
            }

            fn subscribe(&mut self, filter: &str, qos: QoS) {
                self.client.subscribe(filter, qos).expect("a request");
                self.until(|packet| matches!(packet, Packet::SubAck(_)).then_some(()));
            }

            /// Publishes, and waits until everything is acknowledged.
            fn publish(&mut self, topic: &str, qos: QoS, retain: bool, count: usize) {
                for nth in 0..count {
                    self.client.publish(topic, qos, retain, nth.to_string().into_bytes()).expect("a request");
                }
                let mut left = count;
                while left > 0 && qos != QoS::AtMostOnce {
                    self.until(|packet| {
                        matches!(packet, Packet::PubAck(_) | Packet::PubComp(_)).then_some(())
                    });
                    left -= 1;
                }
            }

            fn message(&mut self) -> (String, String) {
                self.until(|packet| match packet {
                    Packet::Publish(message) => Some((text(&message.topic), text(&message.payload))),
                    _ => None,
                })
            }

            fn numbers(&mut self, count: usize) {
                for nth in 0..count {
                    assert_eq!(self.message().1, nth.to_string());
                }
            }

            fn leave(mut self) {
                self.client.disconnect().expect("a request");
                while let Ok(Ok(_)) = self.connection.recv_timeout(PATIENCE) {}
            }
        }

        fn messages_come_in_order(port: u16) {
            for (name, qos) in [("0", QoS::AtMostOnce), ("1", QoS::AtLeastOnce), ("2", QoS::ExactlyOnce)] {
                let mut reader = Session::open(port, &format!("reader-{name}"), false, None);
                reader.subscribe(&format!("order/{name}/+"), qos);
                let mut sender = Session::open(port, &format!("sender-{name}"), false, None);
                let sending = std::thread::spawn(move || {
                    // The connection moves on only while it is driven; QoS 0 is not acknowledged.
                    sender.publish(&format!("order/{name}/x"), qos, false, MESSAGES);
                    sender.publish(&format!("order/{name}/x/y"), QoS::AtLeastOnce, false, 1);
                    sender.leave();
                });
                reader.numbers(MESSAGES);
                sending.join().expect("the sender");
                reader.leave();
            }
        }

        fn a_session_goes_on(port: u16) {
            let mut reader = Session::open(port, "kept", true, None);
            assert!(!reader.has_session);
            reader.subscribe("kept/#", QoS::ExactlyOnce);
            reader.leave();
            let mut sender = Session::open(port, "sender", false, None);
            sender.publish("kept/1", QoS::AtLeastOnce, false, 50);
            sender.publish("kept/2", QoS::ExactlyOnce, false, 50);
            let mut reader = Session::open(port, "kept", true, None);
            assert!(reader.has_session, "the session is gone");
            let mut found: Vec<_> = (0..100).map(|_| reader.message()).collect();
            found.sort();
            found.dedup();
            assert_eq!(found.len(), 100, "a message is missing");
            reader.leave();
            Session::open(port, "kept", false, None).leave();
        }

        fn retained_messages_are_found(port: u16) {
            let mut sender = Session::open(port, "sender", false, None);
            for topic in ["stays/a", "stays/b/c"] {
                sender.publish(topic, QoS::AtLeastOnce, true, 1);
            }
            let mut reader = Session::open(port, "finder", false, None);
            reader.client.subscribe("stays/#", QoS::AtLeastOnce).expect("a request");
            let mut topics = [reader.message().0, reader.message().0];
            topics.sort();
            assert_eq!(topics, ["stays/a", "stays/b/c"]);
            reader.leave();
            sender.leave();
        }

        fn a_will_is_published(port: u16) {
            let mut reader = Session::open(port, "heir", false, None);
            reader.subscribe("last/words", QoS::AtLeastOnce);
            drop(Session::open(port, "dying", false, Some(will("last/words"))));
            assert_eq!(reader.message().1, "farewell");
            reader.leave();
        }

        fn a_client_id_is_taken_over(port: u16) {
            let mut first = Session::open(port, "twin", true, None);
            first.subscribe("twin/#", QoS::AtLeastOnce);
            let mut second = Session::open(port, "twin", true, None);
            assert!(second.has_session);
            let mut sender = Session::open(port, "sender", false, None);
            sender.publish("twin/x", QoS::AtLeastOnce, false, 10);
            second.numbers(10);
            second.leave();
            sender.leave();
            Session::open(port, "twin", false, None).leave();
        }

        pub fn run(port: u16, version: &str) {
            let all: [(&str, fn(u16)); 5] = [
                ("messages come in order", messages_come_in_order),
                ("a session goes on", a_session_goes_on),
                ("retained messages are found", retained_messages_are_found),
                ("a will is published", a_will_is_published),
                ("a client id is taken over", a_client_id_is_taken_over),
            ];
            for (name, scenario) in all {
                scenario(port);
                println!("{version}: {name}");
            }
        }
    };
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

mod v311 {
    use super::*;
    use rumqttc::{Client, Connection, Event, LastWill, MqttOptions, Packet, QoS};

    fn options(id: &str, port: u16, keeps: bool) -> MqttOptions {
        let mut options = MqttOptions::new(id, "127.0.0.1", port);
        options.set_clean_session(!keeps);
        options
    }

    fn will(topic: &str) -> LastWill {
        LastWill::new(topic, "farewell", QoS::AtLeastOnce, false)
    }

    scenarios!();
}

mod v5 {
    use super::*;
    use rumqttc::v5::mqttbytes::QoS;
    use rumqttc::v5::mqttbytes::v5::{LastWill, Packet};
    use rumqttc::v5::{Client, Connection, Event, MqttOptions};

    fn options(id: &str, port: u16, keeps: bool) -> MqttOptions {
        let mut options = MqttOptions::new(id, "127.0.0.1", port);
        options.set_clean_start(!keeps);
        options.set_session_expiry_interval(keeps.then_some(1000));
        options
    }

    fn will(topic: &str) -> LastWill {
        LastWill::new(topic, "farewell", QoS::AtLeastOnce, false, None)
    }

    scenarios!();
}

fn main() {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("rumqttc-suite PORT");
    v311::run(port, "3.1.1");
    v5::run(port, "5.0");
}
