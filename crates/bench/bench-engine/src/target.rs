//! The addresses of servers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A server, by the address of its control connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name or the address of the host.
    pub host: String,
    /// The port of its control connection.
    pub port: u16,
}

impl Target {
    /// Makes the target of a server on this machine.
    pub fn local(port: u16) -> Self {
        Self { host: Ipv4Addr::LOCALHOST.to_string(), port }
    }

    /// Parses HOST, HOST:PORT, an IPv6 address or `[IPv6]:PORT`.
    pub fn parse(text: &str, usual_port: u16) -> Result<Self, String> {
        let wrong = || format!("`{text}`: write HOST, HOST:PORT or [IPv6]:PORT");
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").ok_or_else(wrong)?,
            // A text with several colons and without brackets is an IPv6 address.
            None if text.matches(':').count() > 1 => (text, ""),
            None => text.split_once(':').unwrap_or((text, "")),
        };
        let is_usual = port.is_empty() && !text.ends_with(':');
        let port = if is_usual { Ok(usual_port) } else { port.parse() };
        let port = port.ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    /// Parses several targets. A server has one client at a time, so none may be named twice.
    pub fn parse_all(texts: &[String], usual_port: u16) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for text in texts {
            let target = Self::parse(text, usual_port)?;
            if all.contains(&target) {
                return Err(format!(
                    "{target} is named twice: each node needs a server of its own"
                ));
            }
            all.push(target);
        }
        Ok(all)
    }

    /// Returns true if the server is on this machine, as far as the address tells.
    pub fn is_here(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_a_port_of_their_own_or_the_usual_one() {
        let parsed = |text| Target::parse(text, 7).map(|t| (t.host.clone(), t.port, t.to_string()));
        let found = |host: &str, port, text: &str| Ok((host.to_owned(), port, text.to_owned()));
        assert_eq!(parsed("db1"), found("db1", 7, "db1:7"));
        assert_eq!(parsed("10.0.0.1:99"), found("10.0.0.1", 99, "10.0.0.1:99"));
        assert_eq!(parsed("fe80::1"), found("fe80::1", 7, "[fe80::1]:7"));
        assert_eq!(parsed("[::1]:8"), found("::1", 8, "[::1]:8"));
        for bad in ["", ":9", "h:", "h:0", "h:70000", "[::1]", "[::1]9", "a b", "::1:"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        assert!(Target::local(1).is_here() && !Target::parse("db1", 7).unwrap().is_here());
    }
}
