//! The simulated disk forgets, fails and keeps as its documentation says.

use std::io::ErrorKind;

use super::*;

fn disk_with_dir() -> (SimDisk, PathBuf) {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    (disk, PathBuf::from("/d/f"))
}

#[test]
fn synced_bytes_survive_every_crash() {
    for seed in 0..50 {
        let (disk, path) = disk_with_dir();
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        file.write_all_at(0, &[&[7; 2000]]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_all_at(2000, &[&[8; 2000]]).unwrap();
        disk.crash(seed);
        let bytes = disk.contents(&path).unwrap();
        assert_eq!(&bytes[..2000], [7; 2000]);
        assert!(bytes[2000..].iter().all(|byte| [0, 8].contains(byte)));
    }
}

#[test]
fn unsynced_bytes_and_names_are_sometimes_lost_and_sometimes_kept() {
    let (mut lost, mut kept, mut partial) = (0, 0, 0);
    for seed in 0..200 {
        let (disk, path) = disk_with_dir();
        disk.open(&path, OpenMode::CreateNew).unwrap().write_all_at(0, &[&[1; 4096]]).unwrap();
        disk.crash(seed);
        match disk.contents(&path) {
            None => lost += 1,
            Some(bytes) if bytes == [1; 4096] => kept += 1,
            Some(_) => partial += 1,
        }
    }
    assert!(lost > 20 && kept > 5 && partial > 20, "{lost} {kept} {partial}");
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let run = || {
        let (disk, path) = disk_with_dir();
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_all_at(3, &[&[5; 5000]]).unwrap();
        disk.crash(99);
        disk.contents(&path)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_rename_never_loses_both_names() {
    for seed in 0..50 {
        let (disk, path) = disk_with_dir();
        disk.put(&path, b"old");
        disk.put(Path::new("/d/new"), b"new");
        disk.rename(Path::new("/d/new"), &path).unwrap();
        disk.crash(seed);
        assert!([b"old", b"new"].contains(&disk.contents(&path).unwrap().as_slice().try_into().unwrap()));
    }
}

#[test]
fn a_kill_keeps_what_was_written_but_ends_handles_and_locks() {
    let (disk, path) = disk_with_dir();
    let lock = disk.try_lock(Path::new("/d/lock")).unwrap().unwrap();
    assert!(disk.try_lock(Path::new("/d/lock")).unwrap().is_none());
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_all_at(0, &[b"abc"]).unwrap();
    disk.kill();
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(disk.contents(&path).unwrap(), b"abc");
    assert!(disk.try_lock(Path::new("/d/lock")).unwrap().is_some());
    drop((lock, file));
    assert_eq!(disk.open_file_count(), 0);
}

#[test]
fn bytes_of_a_failed_sync_are_not_saved_by_the_next_sync() {
    let lost = (0..50).any(|seed| {
        let (disk, path) = disk_with_dir();
        let file = disk.open(&path, OpenMode::CreateNew).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_all_at(0, &[b"abc"]).unwrap();
        disk.fail_nth_sync(1);
        assert!(file.sync_data().is_err());
        assert!(file.sync_data().is_ok());
        disk.crash(seed);
        disk.contents(&path).unwrap() != b"abc"
    });
    assert!(lost);
}

#[test]
fn a_full_disk_takes_a_part_and_says_so() {
    let (disk, path) = disk_with_dir();
    disk.set_space_bytes(Some(10));
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_all_at(0, &[&[1; 8]]).unwrap();
    assert_eq!(disk.free_bytes(&path).unwrap(), 2);
    assert_eq!(file.write_all_at(8, &[&[2; 4]]).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 10);
    file.write_all_at(0, &[&[3; 10]]).unwrap();
}

#[test]
fn room_is_taken_at_once_or_not_at_all() {
    let (disk, path) = disk_with_dir();
    disk.set_space_bytes(Some(10));
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.allocate(8).unwrap();
    file.allocate(3).unwrap();
    assert_eq!((file.len().unwrap(), disk.free_bytes(&path).unwrap()), (8, 2));
    assert_eq!(file.allocate(11).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 8);
    disk.remove(&path).unwrap();
    assert_eq!(disk.free_bytes(&path).unwrap(), 10);
}

#[test]
fn bits_flip_once_on_read_or_for_good_on_disk() {
    let (disk, path) = disk_with_dir();
    disk.put(&path, &[0; 4]);
    let file = disk.open(&path, OpenMode::Read).unwrap();
    let read = || {
        let mut bytes = [0; 4];
        file.read_exact_at(0, &mut bytes).unwrap();
        bytes
    };
    disk.flip_bit_on_nth_read(2);
    assert_eq!([read(), read(), read()], [[0; 4], [0, 0, 1, 0], [0; 4]]);
    disk.corrupt(&path, 3, 0x80);
    disk.crash(1);
    assert_eq!(disk.contents(&path).unwrap(), [0, 0, 0, 0x80]);
    assert_eq!((disk.file_count(), disk.sync_count()), (1, 0));
}
