//! How much one command may write. Names have their bounds where they come from; this is about what has none: arguments,
//! values of parameters, descriptions, tags, patterns. Refuses to know what they mean.

use crate::command::{Command, VhostMetadata};
use crate::policies::{PolicyDefinition, PolicyValue};
use crate::refusal::Refusal;

/// Most bytes of arguments, values and texts in one command. Everything that an AMQP 0-9-1 client can declare fits: a frame of RabbitMQ's
/// default size holds as many.
pub const BULK_BYTES_MAX: usize = 128 << 10;

/// Refuses what is too large to keep.
///
/// # Errors
/// [`Refusal::TooLarge`].
pub(crate) fn check(command: &Command) -> Result<(), Refusal> {
    let bytes = bulk(command);
    if bytes > BULK_BYTES_MAX { Err(Refusal::TooLarge { bytes, bytes_max: BULK_BYTES_MAX }) } else { Ok(()) }
}

fn bulk(command: &Command) -> usize {
    match command {
        Command::AddVhost(it) => of_vhost(&it.metadata),
        Command::SetVhostMetadata(it) => of_vhost(&it.metadata),
        Command::AddUser(it) => of_words(&it.tags),
        Command::PutUser(it) => of_words(&it.tags),
        Command::SetUserTags(it) => of_words(&it.tags),
        Command::SetPermissions(it) => it.configure.len() + it.write.len() + it.read.len(),
        Command::SetTopicPermissions(it) => it.write.len() + it.read.len(),
        Command::DeclareExchange(it) => it.arguments.raw().len(),
        Command::DeclareQueue(it) => it.arguments.raw().len(),
        Command::Bind(it) => it.arguments.raw().len(),
        Command::SetParameter(it) => it.value.len(),
        Command::SetGlobalParameter(it) => it.value.len(),
        Command::SetPolicy(it) | Command::SetOperatorPolicy(it) => {
            it.pattern.len() + of_definition(&it.definition)
        }
        // The others write names and numbers, or take away. The entries of a batch are looked at one by one.
        _ => 0,
    }
}

fn of_vhost(metadata: &VhostMetadata) -> usize {
    let kind = metadata.default_queue_type.as_ref().map_or(0, |kind| kind.len());
    metadata.description.len() + of_words(&metadata.tags) + kind
}

/// Each word takes some memory even if it is empty.
fn of_words(words: &[Box<str>]) -> usize {
    words.iter().map(|word| word.len() + size_of::<Box<str>>()).sum()
}

fn of_definition(definition: &PolicyDefinition) -> usize {
    let bytes = |value: &PolicyValue| match value {
        PolicyValue::Text(text) => text.len(),
        PolicyValue::Integer(_) => size_of::<i64>(),
    };
    definition.iter().map(|(name, value)| name.len() + bytes(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{SetGlobalParameter, SetUserTags};

    #[test]
    fn one_command_writes_so_much_and_no_more() {
        let of = |bytes: usize| {
            let value = "x".repeat(bytes).into();
            check(&Command::SetGlobalParameter(SetGlobalParameter { name: "n".into(), value }))
        };
        assert_eq!(of(BULK_BYTES_MAX), Ok(()));
        let refused = Refusal::TooLarge { bytes: BULK_BYTES_MAX + 1, bytes_max: BULK_BYTES_MAX };
        assert_eq!(of(BULK_BYTES_MAX + 1), Err(refused));
    }

    #[test]
    fn many_empty_words_are_too_many() {
        let tags = vec![Box::from(""); BULK_BYTES_MAX / 8];
        assert!(check(&Command::SetUserTags(SetUserTags { name: b"u".as_slice().into(), tags })).is_err());
    }
}
