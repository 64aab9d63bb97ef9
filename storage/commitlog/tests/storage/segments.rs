//! Segments: blocks come back or are reported, files stay few, failures stay with their stream.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use commitlog::{BlockLocation, ScanEnd, SegmentError, SegmentIo, SegmentListener, SegmentOptions, Segments};
use parking_lot::Mutex;
use platform::{Caching, Disk, RealDisk, SeededRandom, SimDisk};

const DIR: &str = "/data/segments";

fn small() -> SegmentOptions {
    SegmentOptions { segment_bytes_max: 300, open_files_max: 4 }
}

fn open(disk: &SimDisk) -> Segments {
    Segments::open(Arc::new(disk.clone()), Path::new(DIR), small()).unwrap()
}

/// The only file of a stream.
fn only_file(disk: &SimDisk, stream: u64) -> std::path::PathBuf {
    let prefix = format!("{stream:016x}-");
    (0..256)
        .map(|folder| Path::new(DIR).join(format!("{folder:02x}")))
        .flat_map(|dir| {
            let names = disk.list(&dir).unwrap_or_default();
            names.into_iter().map(move |name| dir.join(name))
        })
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix))
        .unwrap()
}

#[test]
fn blocks_come_back_and_files_roll_at_their_limit() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let blocks: Vec<Vec<u8>> = (0..20_u8).map(|n| vec![n; usize::from(n) * 7]).collect();
    let locations: Vec<BlockLocation> =
        blocks.iter().map(|block| segments.write_block(9, block).unwrap()).collect();
    assert!(locations.is_sorted());
    assert!(segments.segments_of(9).len() > 3);
    for (block, location) in blocks.iter().zip(&locations) {
        assert_eq!(segments.read_block(9, *location).unwrap(), *block);
    }
}

#[test]
fn synced_blocks_survive_a_crash_and_old_files_are_never_written_to_again() {
    for seed in 0..100 {
        let disk = SimDisk::new();
        let segments = open(&disk);
        let kept = segments.write_block(1, b"synced").unwrap();
        segments.sync(1).unwrap();
        segments.write_block(1, b"not synced").unwrap();
        segments.write_block(2, b"not synced").unwrap();
        disk.crash(seed);
        let segments = open(&disk);
        assert_eq!(segments.read_block(1, kept).unwrap(), b"synced");
        let next = segments.write_block(1, b"next life").unwrap();
        assert!(next.segment > kept.segment);
        assert_eq!(segments.read_block(1, next).unwrap(), b"next life");
    }
}

#[test]
fn a_location_works_only_for_its_own_stream_and_place() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let first = segments.write_block(1, b"aaaa").unwrap();
    let second = segments.write_block(1, b"bbbb").unwrap();
    let other = segments.write_block(2, b"aaaa").unwrap();
    let wrong = [
        BlockLocation { offset: first.offset + 1, ..first },
        BlockLocation { len: 3, ..first },
        BlockLocation { len: u32::MAX, ..first },
        BlockLocation { offset: second.offset + 1000, ..first },
    ];
    for location in wrong {
        let error = segments.read_block(1, location).unwrap_err();
        assert!(matches!(error, SegmentError::Damaged { .. }), "{error}");
    }
    assert!(matches!(segments.read_block(1, other), Err(SegmentError::Io(_))));
    assert!(matches!(segments.read_block(3, first), Err(SegmentError::Io(_))));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let length = 32 + 8 + 20;
    for offset in 0..length {
        let disk = SimDisk::new();
        let location = open(&disk).write_block(1, &[3; 20]).unwrap();
        disk.corrupt(&only_file(&disk, 1), offset, 0x40);
        // Opened anew, so that the header is read again.
        let error = open(&disk).read_block(1, location).unwrap_err();
        assert!(matches!(error, SegmentError::Damaged { .. }), "byte {offset}: {error}");
    }
}

#[test]
fn a_scan_shows_blocks_up_to_an_unfinished_one() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let whole: Vec<_> = [&b"one"[..], b"", b"three"]
        .map(|block| (segments.write_block(1, block).unwrap(), block.to_vec()))
        .into();
    let torn = segments.write_block(1, b"torn").unwrap();
    let path = only_file(&disk, 1);
    let bytes = disk.contents(&path).unwrap();
    for (cut, end) in [(0, ScanEnd::Whole), (1, bad(torn)), (4, bad(torn)), (5, bad(torn)), (11, bad(torn))] {
        disk.put(&path, &bytes[..bytes.len() - cut]);
        let segments = open(&disk);
        let mut shown = Vec::new();
        let found =
            segments.scan(1, torn.segment, |place, block| shown.push((place, block.to_vec()))).unwrap();
        assert_eq!(found, end, "cut {cut}");
        assert_eq!(&shown[..3], whole);
        assert_eq!(shown.len(), if cut == 0 { 4 } else { 3 });
    }
}

fn bad(location: BlockLocation) -> ScanEnd {
    ScanEnd::Bad { offset: u64::from(location.offset) }
}

#[test]
fn deleting_frees_files_and_numbers_never_come_again() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let first = segments.write_block(1, &[0; 300]).unwrap();
    let second = segments.write_block(1, &[0; 300]).unwrap();
    segments.delete_segment(1, second.segment).unwrap();
    segments.delete_segment(1, 12345).unwrap();
    assert_eq!(segments.segments_of(1), [first.segment]);
    segments.delete_stream(1).unwrap();
    segments.delete_stream(1).unwrap();
    assert_eq!(disk.file_count(), 1, "only the epoch");
    disk.kill();
    let segments = open(&disk);
    let third = segments.write_block(1, b"x").unwrap();
    assert!(third.segment > second.segment);
    assert!(segments.read_block(1, second).is_err());
}

#[test]
fn leftovers_of_unknown_streams_are_deleted_at_the_start() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let locations: Vec<_> = (0..40).map(|stream| segments.write_block(stream, b"x").unwrap()).collect();
    disk.kill();
    let segments = open(&disk);
    assert_eq!(segments.retain(|stream| stream % 4 == 0).unwrap(), 30);
    assert_eq!(disk.file_count(), 10 + 2);
    assert_eq!(segments.read_block(8, locations[8]).unwrap(), b"x");
    assert!(segments.read_block(9, locations[9]).is_err());
}

#[test]
fn open_files_stay_few_and_what_they_wrote_is_synced_all_the_same() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let write = |stream: u64| segments.write_block(stream, &stream.to_be_bytes()).unwrap();
    let locations: Vec<_> = (0..500).map(write).collect();
    assert!(disk.open_file_count() <= 4);
    for stream in 0..500 {
        segments.sync(stream).unwrap();
    }
    let syncs = disk.sync_count();
    for stream in 0..500 {
        segments.sync(stream).unwrap();
    }
    assert_eq!(disk.sync_count(), syncs, "what is clean costs no sync");
    disk.crash(1);
    let segments = open(&disk);
    for (stream, location) in (0..).zip(locations) {
        assert_eq!(segments.read_block(stream, location).unwrap(), u64::to_be_bytes(stream));
    }
}

#[test]
fn a_failed_sync_poisons_its_stream_until_it_is_deleted() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    segments.write_block(1, b"x").unwrap();
    segments.write_block(2, b"x").unwrap();
    disk.fail_nth_sync(1);
    assert!(matches!(segments.sync(1), Err(SegmentError::Poisoned(_))));
    assert!(matches!(segments.sync(1), Err(SegmentError::Poisoned(_))));
    assert!(matches!(segments.write_block(1, b"y"), Err(SegmentError::Poisoned(_))));
    segments.sync(2).unwrap();
    segments.delete_stream(1).unwrap();
    segments.write_block(1, b"y").unwrap();
    segments.sync(1).unwrap();
}

#[test]
fn a_failed_sync_while_making_room_is_not_forgotten() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    segments.write_block(1, b"x").unwrap();
    disk.fail_nth_sync(1);
    for stream in 2..10 {
        segments.write_block(stream, b"x").unwrap();
    }
    assert!(matches!(segments.sync(1), Err(SegmentError::Poisoned(_))));
    segments.sync(2).unwrap();
}

#[test]
fn after_a_full_disk_the_same_block_can_be_written_again() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    segments.write_block(1, b"before").unwrap();
    disk.set_space_bytes(Some(120));
    let error = segments.write_block(1, &[1; 100]).unwrap_err();
    assert!(
        matches!(error, SegmentError::Io(failure) if failure.source.kind() == std::io::ErrorKind::StorageFull)
    );
    disk.set_space_bytes(None);
    let location = segments.write_block(1, &[1; 100]).unwrap();
    assert_eq!(segments.read_block(1, location).unwrap(), [1; 100]);
}

#[test]
fn attempts_on_a_full_disk_leave_no_files_and_no_bytes_behind() {
    let disk = SimDisk::new();
    let segments = open(&disk);
    let before = segments.write_block(1, b"before").unwrap();
    let count = disk.file_count();
    disk.set_space_bytes(Some(170));
    for stream in [1, 1, 2, 2] {
        assert!(segments.write_block(stream, &[1; 200]).unwrap_err().is_out_of_room());
    }
    assert_eq!(disk.file_count(), count);
    disk.set_space_bytes(None);
    let after = segments.write_block(1, b"after").unwrap();
    assert_eq!((after.segment, disk.file_count()), (before.segment, count));
    segments.sync(1).unwrap();
    let mut shown = Vec::new();
    let end = segments.scan(1, after.segment, |_, block| shown.push(block.to_vec())).unwrap();
    assert_eq!((end, shown), (commitlog::ScanEnd::Whole, vec![b"before".to_vec(), b"after".to_vec()]));
}

/// Notes every answer with the stream it belongs to, in order.
#[derive(Default)]
struct Answers {
    all: Mutex<BTreeMap<u64, Vec<String>>>,
    locations: Mutex<BTreeMap<u64, BlockLocation>>,
}

impl Answers {
    fn note(&self, stream: u64, text: String) {
        self.all.lock().entry(stream).or_default().push(text);
    }
}

impl SegmentListener for Answers {
    fn written(&self, stream: u64, token: u64, result: Result<BlockLocation, SegmentError>) {
        self.locations.lock().insert(token, result.unwrap());
        self.note(stream, format!("written {token}"));
    }

    fn read(&self, stream: u64, token: u64, result: Result<Vec<u8>, SegmentError>) {
        let text = result.map_or_else(|error| error.to_string(), |block| format!("read {token} {block:?}"));
        self.note(stream, text);
    }

    fn synced(&self, token: u64, result: Result<(), Vec<(u64, SegmentError)>>) {
        let failed: Vec<u64> = result.err().unwrap_or_default().iter().map(|(stream, _)| *stream).collect();
        self.note(u64::MAX, format!("synced {token} but {failed:?}"));
    }

    fn delete_failed(&self, stream: u64, error: &SegmentError) {
        self.note(stream, error.to_string());
    }
}

#[test]
fn threads_keep_the_order_of_each_stream_and_answer_everything() {
    let disk = SimDisk::new();
    let answers = Arc::new(Answers::default());
    let io = SegmentIo::start(Arc::new(open(&disk)), answers.clone(), 3).unwrap();
    for token in 0..600 {
        io.submit_write(token % 20, token, vec![1; 10]);
    }
    io.submit_sync(&(0..20).collect::<Vec<_>>(), 7);
    io.submit_sync(&[], 8);
    io.close();
    assert_eq!(io.queued_bytes(), 0);
    let all = answers.all.lock();
    for stream in 0..20 {
        let expected: Vec<_> = (0..30).map(|n| format!("written {}", n * 20 + stream)).collect();
        assert_eq!(all[&stream], expected);
    }
    let mut synced = all[&u64::MAX].clone();
    synced.sort();
    assert_eq!(synced, ["synced 7 but []", "synced 8 but []"]);
}

#[test]
fn a_driven_io_does_one_thing_at_a_time_and_counts_what_waits() {
    let disk = SimDisk::new();
    let answers = Arc::new(Answers::default());
    let io = SegmentIo::driven(Arc::new(open(&disk)), answers.clone());
    io.submit_write(1, 0, vec![5; 3]);
    io.submit_write(2, 1, Arc::<[u8]>::from([6; 4]));
    assert_eq!(io.queued_bytes(), 7);
    assert!(io.step() && io.step() && !io.step());
    let location = answers.locations.lock()[&0];
    io.submit_delete_segment(1, location.segment);
    io.submit_read(1, 2, location);
    assert!(io.step(), "the read goes first");
    assert_eq!(answers.all.lock()[&1], ["written 0", "read 2 [5, 5, 5]"]);
    assert!(io.step(), "then the deletion");
    io.submit_read(1, 3, location);
    disk.fail_nth_sync(1);
    io.submit_sync(&[2], 4);
    io.submit_delete_stream(2);
    while io.step() {}
    let all = answers.all.lock();
    assert_eq!(all[&1][..2], ["written 0", "read 2 [5, 5, 5]"]);
    assert!(all[&1][2].contains("cannot find"));
    assert_eq!(all[&u64::MAX], ["synced 4 but [2]"]);
    assert_eq!((io.queued_bytes(), disk.file_count()), (0, 1));
}

#[test]
fn only_blocks_that_are_surely_on_the_disk_leave_the_systems_cache() {
    let disk = SimDisk::new();
    let answers = Arc::new(Answers::default());
    let io = SegmentIo::driven(Arc::new(open(&disk)), answers.clone());
    let read = |token: u64, caching: Caching| {
        while io.step() {}
        let location = answers.locations.lock()[&0];
        io.submit_read_as(1, token, location, (Some, caching));
        while io.step() {}
        let last = answers.all.lock()[&1].last().cloned();
        assert_eq!(last.unwrap(), format!("read {token} [5, 5, 5]"));
        disk.passed_read_count()
    };
    io.submit_write(1, 0, vec![5; 3]);
    assert_eq!(read(1, Caching::Pass), 0, "not synced");
    io.submit_sync(&[1], 2);
    assert_eq!(read(3, Caching::Keep), 0, "not wanted");
    assert_eq!(read(4, Caching::Pass), 1);

    io.submit_write(1, 0, vec![5; 3]);
    disk.fail_nth_sync(1);
    io.submit_sync(&[1], 5);
    io.submit_sync(&[1], 6);
    // A second sync would have succeeded, and the disk does not have it.
    assert_eq!(read(7, Caching::Pass), 1);
    assert_eq!(read(8, Caching::Pass), 1);
}

/// The knowledge of a seed's run of segments.
#[derive(Default)]
struct Model {
    /// Per stream: the written blocks, and whether a sync has covered them.
    blocks: BTreeMap<(u64, BlockLocation), (Vec<u8>, Synced)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Synced {
    Yes,
    No,
}

fn random_life(segments: &Segments, model: &mut Model, random: &SeededRandom) {
    for _ in 0..random.below(80) {
        let stream = random.below(12);
        match random.below(12) {
            0..7 => {
                let len = usize::try_from(random.below(200)).unwrap();
                let block = vec![u8::try_from(stream).unwrap(); len];
                if let Ok(location) = segments.write_block(stream, &block) {
                    model.blocks.insert((stream, location), (block, Synced::No));
                }
            }
            7..10 => {
                if segments.sync(stream).is_ok() {
                    let of_stream = model.blocks.iter_mut().filter(|((known, _), _)| *known == stream);
                    of_stream.for_each(|(_, (_, synced))| *synced = Synced::Yes);
                }
            }
            10 => {
                let victim = model.blocks.keys().map(|(stream, place)| (*stream, place.segment)).next();
                if let Some((stream, segment)) = victim {
                    segments.delete_segment(stream, segment).unwrap();
                    model.blocks.retain(|(_, place), _| place.segment != segment);
                }
            }
            _ => {
                segments.delete_stream(stream).unwrap();
                model.blocks.retain(|(known, _), _| *known != stream);
            }
        }
    }
}

#[test]
fn synced_blocks_survive_hundreds_of_random_lives() {
    for seed in 0..300 {
        let disk = SimDisk::new();
        let random = SeededRandom::new(seed);
        let mut model = Model::default();
        for life in 0..4 {
            let segments = open(&disk);
            for ((stream, location), (block, synced)) in &model.blocks {
                let found = segments.read_block(*stream, *location);
                match (found, synced) {
                    (Ok(found), _) => assert_eq!(found, *block),
                    (Err(_), Synced::No) => {}
                    (Err(error), Synced::Yes) => panic!("seed {seed} life {life}: {error}"),
                }
            }
            model.blocks.retain(|_, (_, synced)| *synced == Synced::Yes);
            if random.chance(1, 3) {
                disk.fail_nth_sync(1 + random.below(30));
            }
            random_life(&segments, &mut model, &random);
            disk.fail_nth_sync(u64::MAX);
            disk.crash(seed * 7 + life);
        }
    }
}

#[test]
fn segments_work_on_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let answers = Arc::new(Answers::default());
    let segments = Arc::new(Segments::open(Arc::new(RealDisk), dir.path(), small()).unwrap());
    let io = SegmentIo::start(segments.clone(), answers.clone(), 2).unwrap();
    for token in 0..100 {
        io.submit_write(token, token, token.to_be_bytes().to_vec());
    }
    io.submit_sync(&(0..100).collect::<Vec<_>>(), 1);
    io.close();
    drop((io, segments));
    let segments = Segments::open(Arc::new(RealDisk), dir.path(), small()).unwrap();
    for (token, location) in &*answers.locations.lock() {
        assert_eq!(segments.read_block(*token, *location).unwrap(), token.to_be_bytes());
    }
    assert_eq!(segments.retain(|_| false).unwrap(), 100);
}
