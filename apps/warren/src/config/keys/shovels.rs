//! Keys of all shovels; each has its own as a runtime parameter.

use crate::config::key::{Key, Section, Take, Unit};

pub(super) static SECTION: Section = Section {
    title: "Shovels",
    about: "Settings for all shovels. A runtime parameter (`set_parameter shovel`) describes each shovel.",
    keys: KEYS,
};

const KEYS: &[Key] = &[
    Key {
        name: "shovel.topology.predeclared",
        alias: None,
        take: Take::Boolean { set: |options, on| options.shovels.predeclared = on.into() },
        default: "false",
        doc: "Whether the queues of all shovels must exist. A missing one is an error, as with `src-predeclared` \
              and `dest-predeclared`.",
        example: "shovel.topology.predeclared = true",
    },
    Key {
        name: "shovel.delete_after_duration_floor",
        alias: None,
        take: Take::Integer {
            min: 15,
            max: 4_294_967,
            unit: Unit::Seconds,
            set: |options, seconds| options.shovels.lifetime_min_s = seconds,
        },
        default: "60",
        doc: "Shortest time for `src-delete-after-duration`. A shorter one is raised to this.",
        example: "shovel.delete_after_duration_floor = 15",
    },
    Key {
        name: "shovel.operating_mode",
        alias: None,
        take: Take::Choice { of: &["standard"], not_yet: &["alternative", "library"], set: |_, _| {} },
        default: "standard",
        doc: "Accepted, without effect: a shovel always follows its runtime parameter.",
        example: "shovel.operating_mode = standard",
    },
    Key {
        name: "shovel.local.max_credit",
        alias: None,
        take: Take::Integer { min: 1, max: 65_535, unit: Unit::Count, set: |_, _| {} },
        default: "1000",
        doc: "Accepted and not used: shovels within this node are bounded by `src-prefetch-count` as all others.",
        example: "shovel.local.max_credit = 1000",
    },
];
