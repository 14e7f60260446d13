//! Licence expressions of manifests: SPDX, and the older `A/B` for `A OR B`.

use std::iter::Peekable;
use std::vec::IntoIter;

use anyhow::{Result, bail, ensure};

/// Returns whether the licences `allowed` permit the use of code under `expression`.
///
/// # Errors
/// Returns an error if the expression cannot be read.
pub(super) fn permits(expression: &str, allowed: &[String]) -> Result<bool> {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let mut parser = Parser { words: words.into_iter().peekable(), allowed };
    let permitted = parser.any()?;
    ensure!(parser.words.next().is_none(), "'{expression}' goes on after its end");
    Ok(permitted)
}

struct Parser<'a> {
    words: Peekable<IntoIter<String>>,
    allowed: &'a [String],
}

impl Parser<'_> {
    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if(|next| next == word).is_some()
    }

    fn any(&mut self) -> Result<bool> {
        let mut permitted = self.all()?;
        while self.takes("OR") {
            permitted |= self.all()?;
        }
        Ok(permitted)
    }

    fn all(&mut self) -> Result<bool> {
        let mut permitted = self.one()?;
        while self.takes("AND") {
            permitted &= self.one()?;
        }
        Ok(permitted)
    }

    fn one(&mut self) -> Result<bool> {
        if self.takes("(") {
            let permitted = self.any()?;
            ensure!(self.takes(")"), "a bracket is not closed");
            return Ok(permitted);
        }
        let Some(mut name) = self.words.next() else { bail!("it ends too early") };
        ensure!(!["OR", "AND", "WITH", ")"].contains(&name.as_str()), "'{name}' is no licence");
        if self.takes("WITH") {
            let Some(exception) = self.words.next() else { bail!("no exception after WITH") };
            name = format!("{name} WITH {exception}");
        }
        Ok(self.allowed.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_permitted(expression: &str) -> bool {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        permits(expression, &allowed).unwrap()
    }

    #[test]
    fn one_of_a_choice_and_all_of_a_sum_must_be_allowed() {
        for good in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "ISC AND (GPL-3.0 OR MIT)"] {
            assert!(is_permitted(good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "ISC AND (GPL-3.0 OR AGPL-3.0)", "mit"] {
            assert!(!is_permitted(bad), "{bad}");
        }
    }

    #[test]
    fn and_binds_tighter_than_or() {
        assert!(is_permitted("MIT OR ISC AND GPL-3.0"));
        assert!(!is_permitted("GPL-2.0 OR ISC AND GPL-3.0"));
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        assert!(is_permitted("Apache-2.0 WITH LLVM-exception"));
        assert!(!is_permitted("Apache-2.0"));
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["", "MIT OR", "(MIT", "MIT)", "MIT MIT", "AND MIT", "MIT WITH"] {
            assert!(permits(text, &[]).is_err(), "{text}");
        }
    }
}
