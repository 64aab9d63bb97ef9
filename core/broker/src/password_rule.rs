//! Rules for passwords when somebody sets one: `credential_validator.*` of rabbitmq.conf. Refuses to know hashes, which are taken as they
//! are, and passwords that were set before.

/// A rule for new passwords.
#[derive(Clone, Debug, Default)]
pub enum PasswordRule {
    /// Any will do.
    #[default]
    Any,
    /// At least so many characters.
    LengthMin(usize),
    /// This regular expression matches somewhere in it.
    Matching(regex::Regex),
}

impl PasswordRule {
    /// The rule that a regular expression gives; `None` for one that is none.
    #[must_use]
    pub fn matching(pattern: &str) -> Option<PasswordRule> {
        regex::Regex::new(pattern).ok().map(PasswordRule::Matching)
    }

    /// Whether a password may be set.
    ///
    /// # Errors
    /// The fault of the password, in RabbitMQ's words, without the password.
    pub fn check(&self, password: &str) -> Result<(), String> {
        match self {
            PasswordRule::LengthMin(least) if password.chars().count() < *least => {
                Err(format!("minimum required password length is {least}"))
            }
            PasswordRule::Matching(pattern) if !pattern.is_match(password) => {
                Err("provided password does not match the validator regular expression".into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_what_is_wrong_and_not_with_which_password() {
        assert_eq!(PasswordRule::Any.check(""), Ok(()));
        let length = PasswordRule::LengthMin(3);
        assert_eq!(length.check("äöü"), Ok(()));
        assert_eq!(length.check("ab"), Err("minimum required password length is 3".into()));
        let pattern = PasswordRule::Matching(regex::Regex::new("^[a-z]+$").unwrap());
        assert_eq!(pattern.check("abc"), Ok(()));
        assert!(pattern.check("ABC").is_err_and(|text| !text.contains("ABC")));
    }
}
