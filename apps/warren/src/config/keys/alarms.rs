//! Keys of the memory and disk alarms.

use crate::config::key::{Key, Section, Take};
use broker::{DiskLimit, MemoryLimit, size_bytes};

pub(super) static SECTION: Section = Section {
    title: "Alarms",
    about: "When memory or disk space runs short, connections that publish are blocked until there is enough \
            again. Connections that only consume go on. `warren ctl alarms` lists the alarms, and `warren ctl \
            status` shows the figures. `warren ctl set_vm_memory_high_watermark` and `set_disk_free_limit` move a \
            threshold until the next start.",
    keys: KEYS,
};

/// How sizes are written here, which differs from other keys: RabbitMQ's decimal and binary units.
const SIZE: &str = "bytes (`kB`, `MB`, `GB`, `TB` are powers of 1,000; `KiB`, `MiB`, `GiB`, `TiB` of 1,024)";

// Absolute thresholds have precedence over relative ones, so they stand behind them.
const KEYS: &[Key] = &[
    Key {
        name: "vm_memory_high_watermark.relative",
        alias: None,
        take: Take::Text {
            shape: "fraction, 0.0 to 1.0",
            set: |options, value| {
                options.alarms.memory = MemoryLimit::Fraction(factor(value, 1.0)?);
                Ok(())
            },
        },
        default: "0.6",
        doc: "The memory alarm is on while the broker occupies more than this part of the memory of the machine, \
              or of its container (control group).",
        example: "vm_memory_high_watermark.relative = 0.4",
    },
    Key {
        name: "vm_memory_high_watermark.absolute",
        alias: None,
        take: Take::Text {
            shape: SIZE,
            set: |options, value| {
                options.alarms.memory = MemoryLimit::Bytes(size(value)?);
                Ok(())
            },
        },
        default: "",
        doc: "The same as an amount. It wins over the relative one.",
        example: "vm_memory_high_watermark.absolute = 2GiB",
    },
    Key {
        name: "disk_free_limit.relative",
        alias: None,
        take: Take::Text {
            shape: "factor, at least 0.0",
            set: |options, value| {
                options.alarms.disk = DiskLimit::OfMemory(factor(value, f64::MAX)?);
                Ok(())
            },
        },
        default: "",
        doc: "The disk alarm is on while less is free for the data folder than the memory times this factor.",
        example: "disk_free_limit.relative = 1.5",
    },
    Key {
        name: "disk_free_limit.absolute",
        alias: None,
        take: Take::Text {
            shape: SIZE,
            set: |options, value| {
                options.alarms.disk = DiskLimit::Bytes(size(value)?);
                Ok(())
            },
        },
        default: "50MB",
        doc: "The same as an amount. It wins over the relative one. A write that finds the disk full raises the \
              alarm in any case.",
        example: "disk_free_limit.absolute = 2GB",
    },
    Key {
        name: "total_memory_available_override_value",
        alias: None,
        take: Take::Text {
            shape: SIZE,
            set: |options, value| {
                options.alarms.memory_total_bytes = Some(size(value)?);
                Ok(())
            },
        },
        default: "",
        doc: "Memory that the relative threshold is a part of, if the broker may not use all that the system \
              reports.",
        example: "total_memory_available_override_value = 2GB",
    },
    Key {
        name: "vm_memory_high_watermark_paging_ratio",
        alias: None,
        take: Take::Text {
            shape: "fraction between 0.0 and 1.0",
            set: |_, value| match factor(value, 1.0)? {
                0.0 | 1.0 => Err("expected a number between 0.0 and 1.0".to_owned()),
                _ => Ok(()),
            },
        },
        default: "0.5",
        doc: "Accepted, without effect, as in RabbitMQ 4: backlogs go to disk earlier.",
        example: "vm_memory_high_watermark_paging_ratio = 0.75",
    },
    Key {
        name: "vm_memory_calculation_strategy",
        alias: None,
        take: Take::Choice { of: &["rss", "allocated", "erlang", "legacy"], not_yet: &[], set: |_, _| {} },
        default: "rss",
        doc: "Accepted, without effect: memory is what the operating system says the broker occupies (`rss`).",
        example: "vm_memory_calculation_strategy = rss",
    },
];

fn size(value: &str) -> Result<u64, String> {
    size_bytes(value).ok_or_else(|| "expected bytes, as in 50000, 50MB or 50MiB".to_owned())
}

fn factor(value: &str, max: f64) -> Result<f64, String> {
    let number = value.parse().ok().filter(|number| (0.0..=max).contains(number));
    number.ok_or_else(|| match max {
        1.0 => "expected a number from 0.0 to 1.0".to_owned(),
        _ => "expected a number, at least 0.0".to_owned(),
    })
}
