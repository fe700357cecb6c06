//! Tests of index blocks that have valid checksums but invalid block handles.

use tailwater_format::Error;
use tailwater_format::block::{IndexCursor, IndexFormat, Layout};
use tailwater_format::varint::{put_fixed32, put_varint64, put_varsigned64};

#[test]
fn a_handle_whose_end_overflows_is_refused() {
    // Regression test: a delta-encoded handle could describe a block that ends beyond 2^64, and
    // adding its offset and size overflowed.
    let quarter = 1u64 << 62;
    let mut block = vec![0, 1, b'a'];
    put_varint64(&mut block, quarter);
    put_varint64(&mut block, quarter);
    block.extend_from_slice(&[1, 1, b'b']);
    put_varsigned64(&mut block, quarter as i64);
    // One restart point, at the first entry.
    put_fixed32(&mut block, 0);
    put_fixed32(&mut block, 1);

    let layout = Layout::parse(&block).unwrap();
    let format = IndexFormat { delta_values: true, first_keys: false };
    let mut cursor = IndexCursor::default();
    assert_eq!(cursor.seek_to_first(&block, &layout, format), Ok(()));
    assert_eq!((cursor.handle().offset, cursor.handle().size), (quarter, quarter));
    let moved = cursor.next(&block, &layout, format);
    assert!(matches!(moved, Err(Error::Corruption { .. })), "{moved:?}");
}
