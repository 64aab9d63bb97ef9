//! Behaviour of a block.

use super::*;

fn with(messages: u32) -> Block {
    let mut block = Block::new(10);
    (0..messages).for_each(|_| block.push(true, false, 7, None, |out| out.push(0)));
    block
}

#[test]
fn a_block_in_a_backlog_is_small() {
    assert!(size_of::<Block>() <= 80, "{}", size_of::<Block>());
}

#[test]
fn acks_in_order_need_no_marks_and_gaps_close() {
    let mut block = with(6);
    assert!(block.settle(10) && block.settle(11) && !block.settle(11));
    assert!(block.marks.is_none());
    assert!(block.settle(13) && !block.settle(13) && block.settle(12) && !block.settle(13));
    assert_eq!((block.settled_first, block.live), (4, 2));
    assert!(block.is_settled(13) && !block.is_settled(14));
    assert_eq!(block.settled_or_transient().words(), [0b1111]);
    assert_eq!(block.live_body_bytes(), 14);
}

#[test]
fn acks_in_order_are_settled_at_once_and_others_one_by_one() {
    let mut block = with(8);
    assert_eq!(block.settle_in_order(11..13), None, "not the oldest");
    assert_eq!(block.settle_in_order(10..13), Some(21));
    assert_eq!((block.settled_first, block.live, block.is_settled(12)), (3, 5, true));
    assert_eq!(block.settle_in_order(10..13), None, "settled already");
    assert!(block.settle(15));
    assert_eq!(block.settle_in_order(13..15), None, "a later one is settled");
}

#[test]
fn transient_messages_are_told_from_persistent_ones_whichever_came_first() {
    for first in [true, false] {
        let mut block = Block::new(0);
        [first, !first, first].into_iter().for_each(|one| block.push(one, false, 1, None, |out| out.push(0)));
        assert_eq!([0, 1, 2].map(|number| block.is_persistent(number)), [first, !first, first]);
        assert_eq!(block.live_persistent_body_bytes(), if first { 2 } else { 1 });
    }
}
