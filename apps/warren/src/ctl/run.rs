//! Running one command: password from standard input, banner, call, answer, exit code.

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use management::{Answer, CallError, Exit, SOCKET_NAME, call, render};

use super::arguments::{Arguments, Banner, parse};
use super::banner::banner;
use super::documents;

const HELP: &str = "Usage: warren ctl [--data-dir DIR] [-q] [-s] [--formatter FORMAT] COMMAND [ARGUMENTS]

Options:
  --data-dir DIR           folder of the running server [default: $WARREN_DATA_DIR or ./warren-data]
  -p, --vhost VHOST        virtual host of the command [default: /]
  -q, --quiet              only the answer
  -s, --silent             only the answer, without names of columns
  --formatter FORMAT       table, pretty_table, json, csv, erlang
  -t, --timeout SECONDS    longest wait [default: 60]

Users:        add_user delete_user change_password clear_password authenticate_user set_user_tags list_users
Permissions:  set_permissions clear_permissions list_permissions list_user_permissions
              set_topic_permissions clear_topic_permissions list_topic_permissions list_user_topic_permissions
Vhosts:       add_vhost [--description TEXT] [--tags A,B] [--default-queue-type TYPE], delete_vhost, list_vhosts,
              update_vhost_metadata, set_vhost_tags, enable_vhost_deletion_protection, disable_vhost_deletion_protection
Limits:       set_vhost_limits [-p VHOST] JSON, clear_vhost_limits, list_vhost_limits [--global],
              set_user_limits USER JSON, clear_user_limits USER LIMIT|all, list_user_limits [--user USER] [--global]
Parameters:   set_parameter clear_parameter list_parameters, set_global_parameter clear_global_parameter
              list_global_parameters, set_cluster_name NAME
Listings:     list_queues list_exchanges list_bindings list_consumers list_connections list_channels [COLUMN ...]
Routing:      explain_route EXCHANGE KEY [HEADER=VALUE ...], consistent_hash_exchange_ring_state EXCHANGE
Queues:       delete_queue [--if-empty] [--if-unused], purge_queue
Connections:  close_connection PID REASON, close_all_connections [-p VHOST] REASON
Definitions:  export_definitions FILE|-, import_definitions [--skip-unsupported] [FILE|-]
Alarms:       alarms check_alarms check_local_alarms check_running
              set_vm_memory_high_watermark FRACTION | absolute VALUE, set_disk_free_limit VALUE | mem_relative FACTOR
Node:         status ping stop version help
";

/// Runs one command of `rabbitmqctl` and gives its exit code (64 wrong usage, 65 wrong data, 67 no such user,
/// 69 not available, 70 internal).
///
/// # Errors
/// Standard output is closed.
pub fn run(words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let mut arguments = match parse(words) {
        Ok(arguments) => arguments,
        Err(text) => return fail(Exit::USAGE, &format!("Error (argument validation): {text}\n\n{HELP}")),
    };
    let request = &arguments.request;
    if request.has("help") || request.command == "help" {
        return say(HELP);
    }
    if request.has("version") || request.command == "version" {
        return say(concat!(env!("CARGO_PKG_VERSION"), "\n"));
    }
    if request.command.is_empty() {
        return fail(Exit::USAGE, HELP);
    }
    read_password(&mut arguments)?;
    if let Some(line) = banner(&arguments.request).filter(|_| arguments.banner == Banner::Shown) {
        say(&format!("{line}\n"))?;
    }
    let target = match documents::prepare(&mut arguments.request) {
        Ok(target) => target,
        Err((exit, text)) => return fail(exit, &text),
    };
    match call(&socket(&arguments), &arguments.request, arguments.timeout) {
        Ok(Answer::Done { ok }) if target.is_some() => match documents::write(target.as_deref(), &ok) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err((exit, text)) => fail(exit, &text),
        },
        Ok(Answer::Rows(rows)) => say(&render(&rows, arguments.format, arguments.headers)),
        Ok(Answer::Done { ok }) if ok.is_empty() => Ok(ExitCode::SUCCESS),
        Ok(Answer::Done { ok }) => say(&format!("{ok}\n")),
        Ok(Answer::Failed(failure)) => fail(failure.exit, &failure.error),
        Err(error) => unanswered(&arguments, &error),
    }
}

fn socket(arguments: &Arguments) -> PathBuf {
    let folder =
        arguments.data_dir.clone().or_else(|| std::env::var_os("WARREN_DATA_DIR").map(PathBuf::from));
    folder.unwrap_or_else(|| Path::new("warren-data").into()).join(SOCKET_NAME)
}

fn unanswered(arguments: &Arguments, error: &CallError) -> anyhow::Result<ExitCode> {
    let socket = socket(arguments);
    let text = format!(
        "Error: unable to perform an operation on the server at {}: {error}.\n\
         Is the server running, and is --data-dir its data directory?",
        socket.display()
    );
    fail(if matches!(error, CallError::Garbled(_)) { Exit::SOFTWARE } else { Exit::UNAVAILABLE }, &text)
}

/// As with RabbitMQ, a password that is not on the command line is the first line of standard input.
fn read_password(arguments: &mut Arguments) -> io::Result<()> {
    let takes = ["add_user", "change_password", "authenticate_user"];
    let request = &mut arguments.request;
    if request.args.len() == 1 && takes.contains(&request.command.as_str()) {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        request.args.push(line.trim_end_matches(['\r', '\n']).into());
    }
    Ok(())
}

fn say(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn fail(exit: u8, text: &str) -> anyhow::Result<ExitCode> {
    writeln!(io::stderr(), "{}", text.trim_end())?;
    Ok(ExitCode::from(exit))
}
