//! The stored corpus of the fuzz target: once found, never lost.

use std::path::Path;

use super::*;

#[test]
fn the_corpus_of_sessions_passes() {
    let world = World::new();
    world.queue(b"q");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/amqp10_session");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the corpus is part of the repository") {
        let path = file.expect("a readable folder").path();
        println!("{}", path.display());
        crate::fuzzing::amqp10_session(&world.broker, &std::fs::read(&path).expect("a readable file"));
        count += 1;
    }
    assert!(count > 0, "there is no corpus");
}
