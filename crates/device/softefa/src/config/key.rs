//! The key that programs of one user share, as text.

use super::ConfigError;
use crate::local_copy::UserKey;

/// Parses a key: 32 hexadecimal digits.
///
/// # Errors
/// [`ConfigError::LocalKey`].
pub fn parse_key(text: &str) -> Result<UserKey, ConfigError> {
    let error = || ConfigError::LocalKey { value: text.to_owned() };
    let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).map_err(|_| error())?;
    if text.len() == 32 && is_hex { Ok(number.to_be_bytes()) } else { Err(error()) }
}

/// Formats a key for [`parse_key`] to parse.
#[must_use]
pub fn format_key(key: &UserKey) -> String {
    format!("{:032x}", u128::from_be_bytes(*key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_environment() {
        let key = *b"0123456789abcdef";
        assert_eq!(parse_key(&format_key(&key)), Ok(key));
        for bad in ["", "12", "+2345678901234567890123456789012", "zz"] {
            assert!(parse_key(bad).is_err(), "{bad} was accepted");
        }
    }
}
