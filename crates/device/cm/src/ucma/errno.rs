//! Error numbers of Linux, as `write()` returns them.

use core::fmt;

/// The reason why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)+) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($number);)+
        }

        impl fmt::Display for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {
                    $(Self::$name => f.write_str($text),)+
                    Self(number) => write!(f, "Error {number}."),
                }
            }
        }
    };
}

errnos! {
    ENOENT = 2, "No such id.";
    EAGAIN = 11, "No event waits.";
    ENOMEM = 12, "As many as there may be.";
    EACCES = 13, "A port that needs privileges.";
    EFAULT = 14, "Memory that cannot be read.";
    ENODEV = 19, "No adapter has that address.";
    EINVAL = 22, "A value or state in which this cannot be done.";
    ENOSPC = 28, "The answer does not fit where it should go.";
    ENOSYS = 38, "Not implemented.";
    EOPNOTSUPP = 95, "Not supported.";
    EAFNOSUPPORT = 97, "A family of addresses that is not supported.";
    EADDRINUSE = 98, "The port is taken.";
    EADDRNOTAVAIL = 99, "The address is not this machine's, or the port is taken where one of two ids asks for every address.";
    EISCONN = 106, "Connected already.";
    ETIMEDOUT = 110, "No answer.";
    EHOSTUNREACH = 113, "No route to the address.";
}

impl std::error::Error for Errno {}
