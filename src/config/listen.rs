//! Address on which the run's metrics are served.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::{Arg, value_parser};

use super::kinds::{Kind, Wrong};

/// Host of a port that was given alone: no other machine reaches it.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An address to listen on; `none`: there is none.
pub struct Listen;

impl Kind for Listen {
    type Typed = String;
    type Checked = Option<SocketAddr>;
    type Bounds = ();

    fn arg(arg: Arg) -> Arg {
        arg.value_parser(value_parser!(String))
    }

    fn check(typed: &String, (): &(), wrong: Wrong<'_>) -> Option<SocketAddr> {
        if typed == "none" {
            return None;
        }
        let address = address(typed.trim());
        if address.is_none() {
            wrong(format!(
                "{typed:?} is not an address to listen on: give a port, such as 9464, or a numeric \
                 address with a port, such as 127.0.0.1:9464 or [::1]:9464"
            ));
        }
        address
    }
}

/// Address of that text: one with a port, or a port alone. Names are not looked up: one may stand
/// for several addresses.
fn address(text: &str) -> Option<SocketAddr> {
    let port = |text: &str| Some(SocketAddr::new(HERE, text.parse().ok()?));
    let alone = text.strip_prefix("localhost").unwrap_or(text);
    text.parse().ok().or_else(|| port(alone.strip_prefix(':').unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_on_this_machine_and_names_are_not_looked_up() {
        let checked = |typed: &str| {
            let mut told = None;
            let address = Listen::check(&typed.to_owned(), &(), &mut |what| told = Some(what));
            (address.map(|address| address.to_string()), told)
        };
        assert_eq!(checked("none"), (None, None));
        for (typed, address) in [
            ("9464", "127.0.0.1:9464"),
            (":9464", "127.0.0.1:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            ("0.0.0.0:0", "0.0.0.0:0"),
            ("[::1]:9464", "[::1]:9464"),
        ] {
            assert_eq!(checked(typed), (Some(address.to_owned()), None));
        }
        for wrong in ["", "node7:9464", "127.0.0.1", "9464 9465", "65536", "-1", "localhost"] {
            let (address, told) = checked(wrong);
            assert_eq!(address, None, "{wrong}");
            assert!(told.is_some_and(|told| told.contains("127.0.0.1:9464")), "{wrong}");
        }
    }
}
