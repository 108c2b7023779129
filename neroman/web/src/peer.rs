//! Which user is at the other end of a connection over loopback.

use std::net::{IpAddr, SocketAddr};

/// The user whose socket is at the other end, as the kernel lists it; `None` when the list has no
/// such socket, as of a connection that is over.
pub(crate) fn uid(ours: SocketAddr, theirs: SocketAddr) -> Option<u32> {
    let file = match theirs.ip() {
        IpAddr::V4(_) => "/proc/net/tcp",
        IpAddr::V6(_) => "/proc/net/tcp6",
    };
    let listed = std::fs::read_to_string(file).ok()?;
    find(&listed, ours, theirs)
}

/// Finds the socket whose own end is `theirs`.
fn find(listed: &str, ours: SocketAddr, theirs: SocketAddr) -> Option<u32> {
    let (local, remote) = (hexadecimal(theirs), hexadecimal(ours));
    listed.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == local && fields.next()? == remote;
        // State, queues, timer and retransmissions come before it.
        let uid = fields.nth(4)?;
        is_it.then(|| uid.parse().ok()).flatten()
    })
}

/// An address as the kernel writes it: words in the order of the machine's bytes.
fn hexadecimal(address: SocketAddr) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).map(|word| {
        let word = [word[0], word[1], word[2], word[3]];
        format!("{:08X}", u32::from_ne_bytes(word))
    });
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_tells_the_user_of_the_other_end() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let ours = listener.local_addr().expect("an address");
            let client = TcpStream::connect(ours).expect("a connection");
            let theirs = client.local_addr().expect("an address");
            let me = rustix::process::geteuid().as_raw();
            assert_eq!(uid(ours, theirs), Some(me), "{address}");
            let other = SocketAddr::new(theirs.ip(), 1);
            assert_eq!(uid(ours, other), None);
        }
    }

    #[test]
    fn a_line_of_another_user_is_read() {
        let listed = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
             1: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1004        0 99 1 0\n";
        let ours = "127.0.0.1:8080".parse().expect("an address");
        let theirs = "127.0.0.1:40000".parse().expect("an address");
        assert_eq!(find(listed, ours, theirs), Some(1004));
        assert_eq!(find(listed, theirs, ours), None);
        assert_eq!(find("", ours, theirs), None);
    }
}
