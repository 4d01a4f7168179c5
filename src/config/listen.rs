//! Address on which the run's metrics are served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// Host of a port that was given alone: no other machine reaches it.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Address to listen on: one with a port, or a port alone. Names are not looked up: one may stand
/// for several addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen(pub SocketAddr);

impl FromStr for Listen {
    type Err = String;

    fn from_str(typed: &str) -> Result<Listen, String> {
        let text = typed.trim();
        let port = |text: &str| Some(SocketAddr::new(HERE, text.parse().ok()?));
        let alone = text.strip_prefix("localhost").unwrap_or(text);
        let address = text.parse().ok().or_else(|| port(alone.strip_prefix(':').unwrap_or(text)));
        address.map(Listen).ok_or_else(|| {
            format!(
                "{typed:?} is not an address to listen on: give a port, such as 9464, or a numeric \
                 address with a port, such as 127.0.0.1:9464 or [::1]:9464"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_this_machine_and_names_are_not_looked_up() {
        for (typed, address) in [
            ("9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(typed.parse(), Ok(Listen(address.parse().unwrap())));
        }
        for wrong in ["", "node7:9464", "127.0.0.1", "9464 9465", "65536", "-1", "localhost"] {
            let told = wrong.parse::<Listen>().unwrap_err();
            assert!(told.contains("127.0.0.1:9464"), "{wrong}");
        }
    }
}
