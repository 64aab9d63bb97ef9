//! Arguments of `cargo xtask suites`.

use anyhow::{Result, bail};

use super::list::{AgainstUrl, SUITES, Suite};

/// The action to take.
pub(crate) enum Asked {
    /// Print the names.
    List,
    Help,
    Run {
        suites: Vec<&'static Suite>,
        is_against_url: bool,
    },
}

/// Reads the command line.
///
/// # Errors
/// A name that no suite has; a suite that starts brokers of its own, with `--against-url`.
pub(crate) fn read(arguments: &[&str]) -> Result<Asked> {
    let (mut is_against_url, mut is_soak, mut named) = (false, false, Vec::new());
    for argument in arguments {
        match *argument {
            "--list" => return Ok(Asked::List),
            "--help" | "-h" => return Ok(Asked::Help),
            "--against-url" => is_against_url = true,
            "--soak" => is_soak = true,
            name => match SUITES.iter().find(|suite| suite.name == name) {
                Some(suite) => named.push(suite),
                None => bail!("no suite is called `{name}`; `cargo xtask suites --list` names them"),
            },
        }
    }
    if let Some(suite) = named.iter().find(|suite| is_against_url && suite.against_url == AgainstUrl::Never) {
        bail!("`{}` starts brokers of its own: not with --against-url", suite.name);
    }
    let is_asked = |suite: &&Suite| match (named.is_empty(), is_against_url) {
        (false, _) => named.iter().any(|it| it.name == suite.name),
        (true, true) => suite.against_url == AgainstUrl::Always,
        (true, false) => suite.is_soak == is_soak,
    };
    Ok(Asked::Run { suites: SUITES.iter().filter(is_asked).collect(), is_against_url })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        match read(arguments).unwrap() {
            Asked::Run { suites, .. } => suites.iter().map(|suite| suite.name).collect(),
            _ => panic!(),
        }
    }

    #[test]
    fn without_names_all_but_the_campaigns_are_run() {
        let all = names(&[]);
        assert!(
            all.contains(&"conformance") && !all.contains(&"instructions") && !all.contains(&"soak-kill9")
        );
        assert_eq!(all.len() + names(&["--soak"]).len(), SUITES.len());
    }

    #[test]
    fn named_suites_are_run_in_the_order_of_the_list() {
        assert_eq!(names(&["kill9", "ctl"]), ["ctl", "kill9"]);
        assert_eq!(names(&["soak-kill9"]), ["soak-kill9"]);
    }

    #[test]
    fn against_a_url_only_those_are_run_that_start_no_broker() {
        let all = names(&["--against-url"]);
        assert!(all.contains(&"reconnect") && !all.contains(&"hostile") && !all.contains(&"kill9"));
        assert_eq!(names(&["--against-url", "hostile"]), ["hostile"]);
        assert!(read(&["--against-url", "kill9"]).is_err() && read(&["nonsense"]).is_err());
    }
}
