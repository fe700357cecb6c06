//! Identifies the host of a client.

use std::net::{IpAddr, Ipv4Addr};

/// The part of an address that identifies a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Host {
    V4(Ipv4Addr),
    /// A host usually controls a whole /64 network of IPv6 addresses, so only the first 64 bits
    /// identify it.
    V6([u8; 8]),
}

impl Host {
    /// Returns the host of an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn addresses_of_one_host_are_the_same_host() {
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        assert_eq!(Host::of(IpAddr::V4(Ipv4Addr::LOCALHOST)), Host::of(mapped));
        let [a, b] = [1, 2].map(|end| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, end)));
        assert_eq!(Host::of(a), Host::of(b));
    }
}
