//! Tests of footers and block trailers on tables that RocksDB wrote.

mod common;

use common::GOLDEN;
use tailwater_format::checksum::ChecksumType;
use tailwater_format::table::footer::{FOOTER_LENGTH, MAX_FORMAT_VERSION};
use tailwater_format::table::meta::{self, MetaBlock};
use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle, Footer};
use tailwater_format::varint::Reader;
use tailwater_format::{Error, Result};

#[test]
fn golden_footers_round_trip() {
    for golden in GOLDEN {
        let footer = Footer::decode(golden.bytes, 0).unwrap();
        assert_eq!(footer.format_version, golden.format_version, "{}", golden.name);
        assert_eq!(footer.checksum_type as u8, golden.checksum);
        assert_eq!(footer.base_context, golden.base_context());
        let blocks = golden.meta_blocks();
        assert_eq!(footer.metaindex.offset as usize, blocks[0].1);
        assert_eq!(footer.metaindex.size as usize, blocks[0].2);
        // Decoding needs only the last bytes of the file, as long as they contain the footer.
        for cut in [1, 700, golden.footer_offset()] {
            assert_eq!(Footer::decode(&golden.bytes[cut..], cut as u64), Ok(footer));
        }
        let offset = golden.footer_offset();
        assert_eq!(footer.encode(offset as u64).unwrap(), golden.bytes[offset..]);
    }
}

#[test]
fn every_meta_block_of_the_golden_tables_passes_its_checksum() {
    for golden in GOLDEN {
        let checksum = Footer::decode(golden.bytes, 0).unwrap().block_checksum();
        let mut named = 0;
        for (name, offset, length) in golden.meta_blocks() {
            let bytes = &golden.bytes[offset..][..length + BLOCK_TRAILER_LENGTH];
            let (block, compression) = checksum.verify(offset as u64, bytes).unwrap();
            assert_eq!(block, &bytes[..length]);
            let trailer = checksum.trailer(offset as u64, block, compression);
            assert_eq!(trailer, bytes[length..], "{} {name}", golden.name);
            named += usize::from(MetaBlock::from_name(name.as_bytes()).is_some());

            if checksum.checksum_type == ChecksumType::None {
                continue;
            }
            for at in 0..bytes.len() {
                let mut damaged = bytes.to_vec();
                damaged[at] ^= 0x10;
                assert!(checksum.verify(offset as u64, &damaged).is_err(), "{name} at {at}");
            }
            // From version 6 on, the checksum depends on the offset. The same bytes at another
            // offset do not match it.
            let elsewhere = checksum.verify(offset as u64 + 4096, bytes);
            assert_eq!(elsewhere.is_err(), golden.format_version >= 6);
        }
        // The metaindex contains the names of all meta blocks except itself.
        assert_eq!(named + 1, golden.meta_blocks().len(), "{}", golden.name);
        for length in 0..BLOCK_TRAILER_LENGTH {
            assert!(checksum.verify(0, &golden.bytes[..length]).is_err());
        }
    }
}

#[test]
fn other_files_are_refused_by_name() {
    let with_magic = |magic: u64| {
        let mut file = vec![0; 100];
        file.extend_from_slice(&magic.to_le_bytes());
        Footer::decode(&file, 0)
    };
    let refused = |answer: Result<Footer>, feature: &str| {
        assert_eq!(answer, Err(Error::unsupported(feature.to_string())));
    };
    refused(with_magic(0x8242_2296_63bf_9564), "plain table");
    refused(with_magic(0x4f34_18eb_7a8f_13b8), "plain table");
    refused(with_magic(0x9267_89d0_c5f1_7873), "cuckoo table");
    refused(with_magic(0xdb47_7524_8b80_fb57), "block-based table of format_version 0");
    refused(with_magic(0x88e2_41b7_85f4_cff7), "block-based table of format_version 0");
    let error = with_magic(1).unwrap_err().to_string();
    assert!(error.contains("an SST"), "{error}");
    for length in 0..FOOTER_LENGTH {
        let end = GOLDEN[0].bytes.len();
        assert!(Footer::decode(&GOLDEN[0].bytes[end - length..], 0).is_err());
    }
    let mut later = GOLDEN[6].bytes.to_vec();
    let end = later.len();
    later[end - 12] = MAX_FORMAT_VERSION as u8 + 1;
    refused(Footer::decode(&later, 0), "block-based table of format_version 8");
}

#[test]
fn damaged_footers_are_refused_or_well_formed() {
    let mut accepted = 0;
    for golden in GOLDEN {
        let offset = golden.footer_offset();
        for bit in 0..FOOTER_LENGTH * 8 {
            let mut footer = golden.bytes[offset..].to_vec();
            footer[bit / 8] ^= 1 << (bit % 8);
            let answer = Footer::decode(&footer, offset as u64);
            if let Ok(footer) = answer {
                accepted += 1;
                assert!(footer.metaindex.end() <= offset as u64);
            }
            // From version 6 on, the footer's checksum detects every flipped bit, unless the
            // checksum type is none.
            if golden.format_version >= 6 && golden.checksum != 0 {
                assert!(answer.is_err(), "{} bit {bit}", golden.name);
            }
        }
        if golden.format_version >= 6 {
            assert!(Footer::decode(&golden.bytes[offset..], offset as u64 + 1).is_err());
        }
    }
    assert!(accepted > 0, "footers without a checksum have bits that may change");
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..100_000 {
        let mut footer: [u8; FOOTER_LENGTH] = std::array::from_fn(|_| random.u8(..));
        footer[0] &= 7;
        footer[41..45].copy_from_slice(&random.u32(..9).to_le_bytes());
        footer[45..].copy_from_slice(&0x88e2_41b7_85f4_cff7u64.to_le_bytes());
        if random.bool() {
            footer[1..5].copy_from_slice(&[0x3e, 0, 0x7a, 0]);
        }
        let _ = Footer::decode(&footer, random.u64(..));
    }
}

#[test]
fn a_footer_that_contradicts_itself_is_not_written() {
    let old = Footer::decode(GOLDEN[0].bytes, 0).unwrap();
    let new = Footer::decode(GOLDEN[6].bytes, 0).unwrap();
    let offset = GOLDEN[6].footer_offset() as u64;
    assert!(new.encode(offset).is_ok());
    assert!(new.encode(offset + 1).is_err());
    assert!(Footer { base_context: 0, ..new }.encode(offset).is_err());
    assert!(Footer { index: old.index, ..new }.encode(offset).is_err());
    assert!(Footer { format_version: 8, ..new }.encode(offset).is_err());
    assert!(Footer { index: None, ..old }.encode(offset).is_err());
    assert!(Footer { base_context: 1, ..old }.encode(offset).is_err());
}

#[test]
fn handles_that_reach_beyond_every_file_are_refused() {
    for handle in [
        BlockHandle::default(),
        BlockHandle { offset: 1 << 40, size: 4096 },
        BlockHandle { offset: u64::MAX - 10, size: 5 },
    ] {
        let mut bytes = Vec::new();
        handle.encode(&mut bytes);
        assert_eq!(BlockHandle::decode(&mut Reader::new(&bytes)), Ok(handle));
        for length in 0..bytes.len() {
            assert!(BlockHandle::decode(&mut Reader::new(&bytes[..length])).is_err());
        }
    }
    let mut bytes = Vec::new();
    BlockHandle { offset: u64::MAX - 10, size: 6 }.encode(&mut bytes);
    assert!(BlockHandle::decode(&mut Reader::new(&bytes)).is_err());
}

#[test]
fn the_properties_are_where_the_metaindex_says() {
    for golden in GOLDEN {
        let properties = golden.meta_block(meta::PROPERTIES).unwrap();
        assert!(!properties.is_empty());
    }
}
