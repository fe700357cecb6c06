//! XXPH3: a pre-release of the XXH3 hash, with which filters hash their keys.
//!
//! RocksDB adopted XXH3 before it was final. Filter keys are still hashed with that pre-release,
//! because stored filters depend on it. The final XXH3, which RocksDB uses for checksums, returns
//! other hashes for input of every length. RocksDB changed one thing: the hash of empty input is
//! not zero. Source: `util/xxph3.h`, xxHash 0.7.2.

const PRIME32_1: u64 = 0x9e37_79b1;
const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME32_3: u64 = 0xc2b2_ae3d;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME64_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME64_5: u64 = 0x27d4_eb2f_1656_67c5;

/// Constant bytes that are mixed into the input.
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// Number of stripes in a block of a long input. Each stripe of a block uses the part of the secret
/// that begins 8 bytes after that of the previous stripe; the next block begins again at offset 0.
const STRIPES_PER_BLOCK: usize = (SECRET.len() - STRIPE) / 8;
/// Length of a stripe in bytes; input of more than 240 bytes is processed in stripes.
const STRIPE: usize = 64;
/// Minimum length that XXH3 requires of a secret, in bytes. The hash of an input of 129 to 240
/// bytes uses the secret from offset `SECRET_MIN - 17`.
const SECRET_MIN: usize = 136;

/// Returns the hash of `input`.
#[inline]
pub(crate) fn xxph3_64(input: &[u8]) -> u64 {
    match input.len() {
        9..=16 => hash_9_to_16(input),
        17..=128 => hash_17_to_128(input),
        4..=8 => hash_4_to_8(input),
        0..=3 => hash_0_to_3(input),
        129..=240 => hash_129_to_240(input),
        _ => hash_long(input),
    }
}

#[inline]
fn hash_4_to_8(input: &[u8]) -> u64 {
    let length = input.len();
    let low = u64::from(read_u32(input, 0));
    let high = u64::from(read_u32(input, length - 4));
    let keyed = (low | high << 32) ^ read_u64(&SECRET, 0);
    let mixed = (keyed ^ keyed >> 51).wrapping_mul(PRIME32_1).wrapping_add(length as u64);
    avalanche((mixed ^ mixed >> 47).wrapping_mul(PRIME64_2))
}

#[inline]
fn hash_0_to_3(input: &[u8]) -> u64 {
    let (Some(&first), Some(&last)) = (input.first(), input.last()) else {
        return fold_product(read_u64(&SECRET, 0), PRIME64_2);
    };
    let middle = input.get(input.len() / 2).copied().unwrap_or_default();
    let combined = u32::from_le_bytes([first, middle, last, input.len() as u8]);
    let keyed = u64::from(combined ^ read_u32(&SECRET, 0));
    avalanche(keyed.wrapping_mul(PRIME64_1))
}

#[inline]
fn hash_9_to_16(input: &[u8]) -> u64 {
    let low = read_u64(input, 0) ^ read_u64(&SECRET, 0);
    let high = read_u64(input, input.len() - 8) ^ read_u64(&SECRET, 8);
    let sum = (input.len() as u64).wrapping_add(low).wrapping_add(high);
    avalanche(sum.wrapping_add(fold_product(low, high)))
}

#[inline]
fn hash_17_to_128(input: &[u8]) -> u64 {
    let length = input.len();
    let mut sum = (length as u64).wrapping_mul(PRIME64_1);
    // The first step mixes the first and the last 16 bytes. Each further step moves 16 bytes inward
    // from both ends, until the whole input has been mixed.
    for step in 0..length.div_ceil(32) {
        let (front, back) = (16 * step, length - 16 * (step + 1));
        sum = sum.wrapping_add(mix_16(input, front, 32 * step));
        sum = sum.wrapping_add(mix_16(input, back, 32 * step + 16));
    }
    avalanche(sum)
}

fn hash_129_to_240(input: &[u8]) -> u64 {
    let length = input.len();
    let mut sum = (length as u64).wrapping_mul(PRIME64_1);
    for at in (0..128).step_by(16) {
        sum = sum.wrapping_add(mix_16(input, at, at));
    }
    sum = avalanche(sum);
    for at in (128..length / 16 * 16).step_by(16) {
        sum = sum.wrapping_add(mix_16(input, at, at - 128 + 3));
    }
    avalanche(sum.wrapping_add(mix_16(input, length - 16, SECRET_MIN - 17)))
}

#[inline(never)]
fn hash_long(input: &[u8]) -> u64 {
    let mut lanes =
        [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1];
    let scramble_secret = SECRET.len() - STRIPE;
    for block in input.chunks(STRIPE * STRIPES_PER_BLOCK) {
        for (number, stripe) in block.chunks_exact(STRIPE).enumerate() {
            accumulate(&mut lanes, stripe, 8 * number);
        }
        if block.len() == STRIPE * STRIPES_PER_BLOCK {
            for (number, lane) in lanes.iter_mut().enumerate() {
                *lane ^= *lane >> 47;
                *lane ^= read_u64(&SECRET, scramble_secret + 8 * number);
                *lane = lane.wrapping_mul(PRIME32_1);
            }
        }
    }
    if !input.len().is_multiple_of(STRIPE) {
        let last = input.get(input.len() - STRIPE..).unwrap_or_default();
        accumulate(&mut lanes, last, scramble_secret - 7);
    }
    let mut sum = (input.len() as u64).wrapping_mul(PRIME64_1);
    for (number, pair) in lanes.chunks_exact(2).enumerate() {
        if let [a, b] = pair {
            let secret = 11 + 16 * number;
            let (a, b) = (a ^ read_u64(&SECRET, secret), b ^ read_u64(&SECRET, secret + 8));
            sum = sum.wrapping_add(fold_product(a, b));
        }
    }
    avalanche(sum)
}

/// Adds a stripe of 64 bytes to the eight lanes. `secret` is the offset in the secret of the 64
/// bytes that the stripe is XORed with.
#[inline]
fn accumulate(lanes: &mut [u64; 8], stripe: &[u8], secret: usize) {
    for (number, lane) in lanes.iter_mut().enumerate() {
        let value = read_u64(stripe, 8 * number);
        let keyed = value ^ read_u64(&SECRET, secret + 8 * number);
        *lane = lane.wrapping_add(value).wrapping_add((keyed & 0xffff_ffff) * (keyed >> 32));
    }
}

/// Mixes 16 bytes of the input with 16 bytes of the secret.
#[inline]
fn mix_16(input: &[u8], at: usize, secret: usize) -> u64 {
    fold_product(
        read_u64(input, at) ^ read_u64(&SECRET, secret),
        read_u64(input, at + 8) ^ read_u64(&SECRET, secret + 8),
    )
}

/// Returns the XOR of the two halves of the 128-bit product.
#[inline]
fn fold_product(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn avalanche(mut hash: u64) -> u64 {
    hash ^= hash >> 37;
    hash = hash.wrapping_mul(PRIME64_3);
    hash ^ hash >> 32
}

/// Returns the eight bytes at offset `at` as a little-endian number. All callers have checked that
/// these bytes exist. If the bytes do not exist, the result is 0.
#[inline(always)]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let chunk = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>);
    chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Returns the four bytes at offset `at` as a little-endian number. All callers have checked that
/// these bytes exist. If the bytes do not exist, the result is 0.
#[inline(always)]
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let chunk = bytes.get(at..).and_then(<[u8]>::first_chunk::<4>);
    chunk.map_or(0, |chunk| u32::from_le_bytes(*chunk))
}
