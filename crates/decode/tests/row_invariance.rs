//! The load-time check must find a device that cheats, at every row count.

use foretoken_core::Ops;
use foretoken_decode::check_row_invariance;
use foretoken_decode::script::Script;
use pollster::block_on;

#[test]
fn an_honest_device_passes() {
    let (mut ops, model) = Script::seeded(5, 32, 64).rig();
    assert_eq!(
        block_on(check_row_invariance(&mut ops, &model)).unwrap(),
        None
    );
    // Two of a prompt, 16 that end at the last row, four that begin at the first.
    assert_eq!(ops.passes(), 2 + 16 + 4);
}

#[test]
fn one_bit_in_one_row_count_is_found() {
    for rows in 1..=15 {
        let (mut ops, model) = Script::seeded(5, 32, 64).rig();
        ops.cheat_on_rows(rows);
        let found = block_on(check_row_invariance(&mut ops, &model))
            .unwrap()
            .expect("a mismatch");
        assert_eq!(
            (found.rows, found.position as usize, found.column),
            (rows, 64 - rows, 0)
        );
        assert_eq!(found.expected.to_bits() ^ found.found.to_bits(), 1);
        ops.pad_rows(true);
        assert_eq!(
            block_on(check_row_invariance(&mut ops, &model)).unwrap(),
            None
        );
    }
}

#[test]
fn a_context_below_sixteen_is_checked_as_far_as_it_goes() {
    let (mut ops, model) = Script::seeded(5, 32, 6).rig();
    assert_eq!(
        block_on(check_row_invariance(&mut ops, &model)).unwrap(),
        None
    );
    assert_eq!(ops.passes(), 6 + 3);
}
