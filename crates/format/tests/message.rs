//! Compares the batches of this crate with Apache Iggy's own codec. Each must read the batches that
//! the other writes, and both must reject the same bytes.

use bytes::BytesMut;
use iggy_binary_protocol::batch as oracle;
use iggy_binary_protocol::requests::messages::{RawMessage, SendMessagesEncoder};
use iggy_binary_protocol::responses::messages::poll_messages::PolledBatchesIterator;
use iggy_binary_protocol::{WireIdentifier, WirePartitioning};
use tailwater_format::message::batch::{
    Batch, Builder, HEADER_BYTES, Header, MESSAGE_HEADER_BYTES, Part,
};

/// Seed of the random numbers, fixed so that every run tests the same batches.
const SEED: u64 = 20_261_124;

fn built(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut builder = Builder::new(rng.u64(..));
    for _ in 0..rng.usize(1..20) {
        let payload: Vec<u8> = (0..rng.usize(..300)).map(|_| rng.u8(..)).collect();
        let headers: Vec<u8> = (0..rng.usize(..3) * 20).map(|_| rng.u8(..)).collect();
        builder.push(rng.u128(..), rng.u32(..), &payload, &headers).expect("a valid batch");
    }
    builder.finish()
}

/// Returns a batch that Iggy's encoder produced.
fn sent(rng: &mut fastrand::Rng) -> Vec<u8> {
    let texts: Vec<Vec<u8>> =
        (0..rng.usize(1..20)).map(|_| vec![rng.u8(..); rng.usize(..300)]).collect();
    let messages: Vec<RawMessage<'_>> = texts
        .iter()
        .map(|payload| RawMessage {
            id: rng.u128(..),
            origin_timestamp: 1_700_000_000_000_000 + rng.u64(..1000),
            headers: rng.bool().then_some(payload.as_slice()),
            payload,
        })
        .collect();
    let mut buffer = BytesMut::new();
    let (stream, topic) = (WireIdentifier::numeric(1), WireIdentifier::numeric(2));
    let partitioning = WirePartitioning::PartitionId(3);
    SendMessagesEncoder::encode(&mut buffer, &stream, &topic, &partitioning, &messages)
        .expect("a valid batch");
    let whole = buffer.to_vec();
    let metadata = u32::from_le_bytes(whole[..4].try_into().expect("a valid batch")) as usize;
    whole[4 + metadata..].to_vec()
}

fn whole(header: Header, messages: &[u8]) -> Vec<u8> {
    [&header.encode()[..], messages].concat()
}

#[test]
fn iggy_reads_the_batches_of_the_builder() {
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 0..200 {
        let bytes = built(&mut rng);
        let theirs = oracle::decode_batch_slice(&bytes).unwrap();
        let ours = Batch::decode_verified(&bytes).unwrap();
        assert_eq!(theirs.header.batch_checksum, ours.header().checksum);
        assert_eq!(theirs.header.batch_length, bytes.len() as u64);
        let mut count = 0;
        for (theirs, ours) in theirs.iter().zip(ours.messages()) {
            assert_eq!(theirs.header.id, ours.id);
            assert_eq!(theirs.header.checksum, ours.checksum);
            assert_eq!(theirs.header.timestamp_delta, ours.timestamp_delta_us);
            assert_eq!((theirs.payload, theirs.user_headers), (ours.payload, ours.user_headers));
            count += 1;
        }
        assert_eq!(count, ours.header().count);
        ours.check_deltas().unwrap();
    }
}

#[test]
fn batches_of_iggys_client_are_stamped_as_iggy_stamps_them() {
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 0..200 {
        let bytes = sent(&mut rng);
        let batch = Batch::decode_verified(&bytes).unwrap();
        batch.check_deltas().unwrap();
        let (partition, offset, time) = (rng.u64(..), rng.u64(..1 << 40), rng.u64(..));
        let stamped = whole(batch.stamped(partition, offset, time), batch.message_bytes());
        let theirs = oracle::decode_batch_slice(&stamped).unwrap().header;
        assert_eq!((theirs.partition_id, theirs.base_offset), (partition, offset));
        assert_eq!(theirs.base_timestamp, time);
        assert_eq!(theirs.checksum_for_blob(batch.message_bytes()), theirs.batch_checksum);
    }
}

#[test]
fn iggys_poll_reads_parts_of_batches() {
    let mut rng = fastrand::Rng::with_seed(SEED);
    for _ in 0..200 {
        let bytes = built(&mut rng);
        let batch = Batch::decode(&bytes).unwrap();
        let stored = whole(batch.stamped(3, 1000, 5), batch.message_bytes());
        let batch = Batch::decode_verified(&stored).unwrap();
        let count = batch.header().count;
        let (from, most) = (1000 + rng.u64(..=u64::from(count)), rng.u32(..=count));
        let end = (from + u64::from(most)).min(1000 + u64::from(count));
        let Some(Part { header, messages }) = batch.part(from, most) else {
            assert!(from >= end, "{most} messages from {from} of {count}");
            continue;
        };
        let part = whole(header, messages);
        Batch::decode_verified(&part).unwrap();
        oracle::decode_batch_slice(&part).unwrap();
        let polled: Vec<u64> =
            PolledBatchesIterator::new(&part).map(|message| message.unwrap().offset).collect();
        assert_eq!(polled, (from..end).collect::<Vec<_>>());
    }
}

#[test]
fn both_codecs_refuse_every_flipped_bit_and_truncation() {
    let mut rng = fastrand::Rng::with_seed(1);
    let bytes = built(&mut rng);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << rng.u32(..8);
        assert!(Batch::decode_verified(&damaged).is_err(), "byte {at}");
        assert!(oracle::decode_batch_slice(&damaged).is_err(), "byte {at}");
        assert!(Batch::decode_verified(&bytes[..at]).is_err(), "{at} bytes");
        assert!(Batch::decode(&bytes[..at]).is_err(), "{at} bytes");
    }
    Batch::decode_verified(&[&bytes[..], b"more"].concat()).unwrap();
}

#[test]
fn golden_bytes_of_a_batch() {
    let mut builder = Builder::new(0x0102_0304_0506_0708);
    builder.push(0x11, 0x22, b"pay", b"head").unwrap();
    let bytes = builder.finish();
    let batch = Batch::decode_verified(&bytes).unwrap();
    let stamped = whole(batch.stamped(9, 100, 200), batch.message_bytes());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let header = [
        "0900000000000000", // partition
        "6400000000000000", // base offset
        "c800000000000000", // base timestamp
        "0807060504030201", // origin timestamp
        "3701000000000000", // length
    ];
    assert_eq!(hex(&stamped[..40]), header.concat());
    assert_eq!(hex(&stamped[48..52]), "01000000");
    let message = [
        "11000000000000000000000000000000", // id
        "00000000",                         // offset delta
        "22000000",                         // timestamp delta
        "04000000",                         // length of the user headers
        "03000000",                         // length of the payload
        "0000000000000000",                 // zeros
        "70617968656164",                   // "pay", "head"
    ];
    assert_eq!(hex(&stamped[HEADER_BYTES + 8..]), message.concat());
    assert_eq!(stamped.len(), HEADER_BYTES + MESSAGE_HEADER_BYTES + 7);
}

#[test]
fn empty_and_partial_batches_are_refused() {
    let empty = Builder::new(0).finish();
    assert!(Batch::decode_verified(&empty).unwrap().check_deltas().is_err());
    let bytes = built(&mut fastrand::Rng::with_seed(2));
    let batch = Batch::decode(&bytes).unwrap();
    let Part { header, messages } = batch.part(1, u32::MAX).expect("more than one message");
    let part = whole(header, messages);
    assert!(Batch::decode_verified(&part).unwrap().check_deltas().is_err());
}
