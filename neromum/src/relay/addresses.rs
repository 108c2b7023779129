//! The addresses of a relay: inside the cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Limit of addresses; a host with more has them for jobs or containers.
const ADDRESSES_MAX: usize = 8;

/// The user's setting for the relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    /// On private addresses, or on the addresses that the host's name has.
    #[default]
    Auto,
    /// Nowhere: dialler and leader share only the disk.
    Never,
    /// On this address.
    On(IpAddr),
}

impl FromStr for Listen {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "never" => Ok(Self::Never),
            address => address.parse().map(Self::On).map_err(|_| ()),
        }
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Never => f.write_str("never"),
            Self::On(address) => address.fmt(f),
        }
    }
}

/// The addresses to listen on; empty when the host has none inside the cluster.
pub async fn inside(listen: Listen, host: &str) -> Vec<IpAddr> {
    match listen {
        Listen::Never => Vec::new(),
        Listen::On(address) => vec![address],
        Listen::Auto => {
            let networks = sysinfo::Networks::new_with_refreshed_list();
            let own: Vec<IpAddr> = networks
                .iter()
                .flat_map(|networks| networks.values())
                .flat_map(|network| network.ip_networks().iter().map(|one| one.addr))
                .collect();
            match chosen(&own) {
                private if !private.is_empty() => private,
                _ => named(host, &own).await,
            }
        }
    }
}

fn chosen(own: &[IpAddr]) -> Vec<IpAddr> {
    let mut private: Vec<IpAddr> = own.iter().copied().filter(is_private).collect();
    // IPv4 first: it is routed nearly everywhere.
    private.sort_by_key(|address| (address.is_ipv6(), *address));
    private.dedup();
    private.truncate(ADDRESSES_MAX);
    private
}

/// Addresses of this host under which others find its name.
async fn named(host: &str, own: &[IpAddr]) -> Vec<IpAddr> {
    let found = tokio::net::lookup_host((host, 0)).await;
    let mut addresses: Vec<IpAddr> = found
        .into_iter()
        .flatten()
        .map(|address: SocketAddr| address.ip())
        .filter(|address| !address.is_loopback() && own.contains(address))
        .collect();
    addresses.dedup();
    addresses.truncate(ADDRESSES_MAX);
    addresses
}

fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_private() || is_shared(*four),
        IpAddr::V6(six) => is_unique_local(*six),
    }
}

/// 100.64/10, between a provider and its customers; used inside of clusters.
fn is_shared(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && (64..128).contains(&second)
}

fn is_unique_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xfe00 == 0xfc00
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn only_addresses_inside_are_chosen() {
        let own = addresses(&[
            "127.0.0.1",
            "8.8.8.8",
            "192.168.3.4",
            "fd00::7",
            "fe80::1",
            "2001:db8::1",
            "100.64.0.9",
            "100.128.0.9",
            "10.1.2.3",
            "::1",
        ]);
        let inside = addresses(&["10.1.2.3", "100.64.0.9", "192.168.3.4", "fd00::7"]);
        assert_eq!(chosen(&own), inside);
        assert!(chosen(&addresses(&["127.0.0.1", "1.2.3.4"])).is_empty());
    }

    #[tokio::test]
    async fn the_choice_of_the_user_counts() {
        assert!(inside(Listen::Never, "localhost").await.is_empty());
        let one: IpAddr = "10.9.8.7".parse().unwrap();
        assert_eq!(inside(Listen::On(one), "localhost").await, [one]);
        assert!(
            named("localhost", &addresses(&["127.0.0.1"]))
                .await
                .is_empty()
        );
        for listen in [Listen::Auto, Listen::Never, Listen::On(one)] {
            assert_eq!(listen.to_string().parse(), Ok(listen));
        }
        assert_eq!("sometimes".parse::<Listen>(), Err(()));
    }
}
