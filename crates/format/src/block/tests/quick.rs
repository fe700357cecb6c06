//! Tests of quick steps: they must agree with ordinary steps, whatever the block contains.

use super::random::{one, random_keys};
use super::{DataWalk, Order, Walk, random};
use crate::block::golden::entries;
use crate::block::{Builder, BuilderOptions, Cursor};
use crate::key::{self, MAX_SEQUENCE, Sequence, ValueType};

/// Returns the user key, if the internal key is of a value that `snapshot` sees.
fn visible(internal_key: &[u8], snapshot: Sequence) -> Option<&[u8]> {
    let (user_key, trailer) = key::split(internal_key)?;
    (trailer as u8 == ValueType::Value as u8 && trailer >> 8 <= snapshot).then_some(user_key)
}

#[test]
fn quick_steps_agree_with_ordinary_steps() {
    let mut random = random();
    let mut cursor = Cursor::default();
    let mut quick_steps = 0;
    for _ in 0..600 {
        let mut keys = random_keys(&mut random, &Order::BYTEWISE);
        for key in &mut keys {
            let trailer = key.len() - 8;
            key[trailer] = one(&mut random, &[1, 1, 1, 1, 1, 1, 0, 2]);
        }
        keys.sort_by(|a, b| Order::BYTEWISE.compare(a, b));
        keys.dedup();
        let options = BuilderOptions {
            restart_interval: one(&mut random, &[1, 2, 3, 16, 1000]),
            delta_keys: random.u8(..5) > 0,
            values_apart: random.u8(..4) == 0,
            hash_index_utilization: None,
        };
        let (mut builder, mut block) = (Builder::new(options), Vec::new());
        keys.iter().for_each(|key| builder.add(key, &key[..random.usize(..=key.len())]));
        builder.finish(&mut block).unwrap();
        let model = entries(&block);
        let mut walk = DataWalk::new(&mut cursor, &block).unwrap();
        let snapshot = one(&mut random, &[0, 0x0101_0101, MAX_SEQUENCE]);
        let mut place = random.usize(..model.len());
        walk.seek(&model[place].key, &Order::BYTEWISE).unwrap();
        for _ in 0..60 {
            let own = key::user_key(&model[place].key);
            let before = place.checked_sub(1).map(|before| &model[before].key);
            match random.u8(..5) {
                0 => {
                    let next = model.get(place + 1).and_then(|next| visible(&next.key, snapshot));
                    let moved = walk.cursor.next_key(&block, &walk.layout, snapshot);
                    assert!(!moved || next.is_some_and(|next| next > own));
                    place += usize::from(moved);
                    quick_steps += usize::from(moved);
                }
                1 => {
                    let newest = walk.cursor.is_newest_value(&block, &walk.layout, snapshot);
                    let is_lower = before.is_some_and(|before| key::user_key(before) < own);
                    let is_visible = visible(&model[place].key, snapshot).is_some();
                    assert_eq!(newest, is_lower && is_visible);
                    // The entry before the current one is decoded then.
                    if newest && random.bool() {
                        assert!(walk.cursor.previous_decoded());
                        place -= 1;
                        quick_steps += 1;
                    }
                }
                2 if walk.cursor.previous_decoded() => place -= 1,
                3 if place + 1 < model.len() => {
                    walk.next().unwrap();
                    place += 1;
                }
                4 if place > 0 => {
                    walk.previous().unwrap();
                    place -= 1;
                }
                _ => {}
            }
            assert_eq!(walk.entry().as_ref(), Some(&model[place]));
        }
    }
    assert!(quick_steps > 1000, "{quick_steps}");
}
