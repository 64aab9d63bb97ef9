//! Shovels as the HTTP API and the command line show them. URIs are shown without credentials.

use serde_json::{Map, Value, json};
use shovel::{AckMode, Blocked, Count, Definition, Progress, Report, State, Uri};

use crate::resources::node::NODE_NAME;

/// A report with what is shown of it.
pub(crate) struct Shown<'a>(pub(crate) &'a Report);

impl Shown<'_> {
    pub(crate) fn state(&self) -> &'static str {
        self.0.state.name()
    }

    pub(crate) fn progress(&self) -> Option<&Progress> {
        if let State::Running(progress) = &self.0.state { Some(progress) } else { None }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        if let State::Terminated { reason } = &self.0.state { Some(reason) } else { None }
    }

    /// When the state changed: `2026-11-21 13:58:24`, UTC.
    pub(crate) fn changed(&self) -> String {
        let seconds = self.0.changed_at_ms / 1000;
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Year, month and day of a count of days since 1970, in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the leap day is a year's last; eras have 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// A count as RabbitMQ writes it.
pub(crate) fn count(count: Count) -> Value {
    match count {
        Count::Unlimited => "unlimited".into(),
        Count::Messages(left) => left.into(),
    }
}

/// A shovel as `GET /api/shovels` has it.
pub(crate) fn object(report: &Report) -> Value {
    let shown = Shown(report);
    let mut object = json!({
        "node": NODE_NAME,
        "timestamp": shown.changed(),
        "name": report.name,
        "vhost": report.vhost,
        "type": "dynamic",
        "state": shown.state(),
    });
    if let Some(reason) = shown.reason() {
        object["reason"] = reason.into();
    }
    if let (Some(progress), Some(definition), Some(fields)) =
        (shown.progress(), &report.definition, object.as_object_mut())
    {
        running(fields, progress, definition);
    }
    object
}

fn running(fields: &mut Map<String, Value>, progress: &Progress, definition: &Definition) {
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("src_uri", progress.source_uri.as_str().into());
    put("src_protocol", definition.source.from.protocol().name().into());
    put("dest_uri", progress.destination_uri.as_str().into());
    put("dest_protocol", definition.destination.to.protocol().name().into());
    definition.ends().into_iter().for_each(|(name, value)| put(name, value.into()));
    put("pending", progress.pending.into());
    put("forwarded", progress.forwarded.into());
    put("remaining", count(progress.remaining));
    put("remaining_unacked", count(progress.remaining_unacked));
    put("blocked_status", if progress.blocked == Blocked::Running { "running" } else { "blocked" }.into());
    put("ack_mode", AckMode::name(definition.ack_mode).into());
}

/// The value of a parameter with the credentials of its URIs left out.
pub(crate) fn parameter(value: &str) -> Value {
    let mut value: Value = serde_json::from_str(value).unwrap_or_default();
    let hide = |uri: &mut Value| {
        let parsed = uri.as_str().map(Uri::parse);
        *uri = parsed.and_then(Result::ok).map_or(Value::Null, |uri| uri.shown().into());
    };
    for key in ["src-uri", "dest-uri"] {
        match value.get_mut(key) {
            Some(Value::Array(many)) => many.iter_mut().for_each(hide),
            Some(one) => hide(one),
            None => {}
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (20_818, (2026, 12, 31)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let value = r#"{"src-uri": ["amqp://u:secret@h/v", "amqp://"], "dest-uri": "amqp://u:secret@h?heartbeat=1", "src-queue": "q"}"#;
        let expected =
            json!({"src-uri": ["amqp://h/v", "amqp://"], "dest-uri": "amqp://h", "src-queue": "q"});
        assert_eq!(parameter(value), expected);
    }
}
