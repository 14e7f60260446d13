//! Failures of the command: one line for the user and the exit code of env(1).

use std::fmt;

/// Exit code when `softefa` itself failed; the program did not start or its figures were lost.
const CODE_OWN: u8 = 125;
/// Exit code when the program was found but cannot be executed.
const CODE_NOT_EXECUTABLE: u8 = 126;
/// Exit code when the program was not found.
const CODE_NOT_FOUND: u8 = 127;

/// A failure with its message: what happened, the value, what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// Creates a failure of `softefa` itself.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: CODE_OWN, message: message.into() }
    }

    /// Creates a failure that the machine causes.
    pub(crate) fn of_machine(message: impl fmt::Display) -> Self {
        Self::new(format!("{message}; softefa doctor checks this machine"))
    }

    /// Creates a failure because the program exists but cannot be executed.
    pub(crate) fn not_executable(message: impl Into<String>) -> Self {
        Self { code: CODE_NOT_EXECUTABLE, message: message.into() }
    }

    /// Creates a failure because the program does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self { code: CODE_NOT_FOUND, message: message.into() }
    }

    /// Returns the exit code of `softefa`.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<softefa::ConfigError> for Failure {
    fn from(error: softefa::ConfigError) -> Self {
        Self::new(error.to_string())
    }
}
