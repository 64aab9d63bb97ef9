//! `warren diag`: the content of a data directory that no server has open, its faults, a clean copy of its readable part,
//! and the records of one file. Refuses to know how anything is stored.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use broker::offline::{
    Declaration, Depth, FileSurvey, LostFrom, Offline, OutdatedVhost, Problems, QueueSurvey, Survey,
    UntoldLoss, dump,
};

use crate::cli::{DiagAction, DiagArgs};

/// Runs it; exits with 1 when `--verify` finds something wrong, or a salvage could not copy everything.
///
/// # Errors
/// The directory is in use or cannot be read, or standard output is closed.
pub fn run(args: &DiagArgs) -> anyhow::Result<ExitCode> {
    platform::privacy::keep_to_owner_and_group();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let problems = match (&args.action, &args.dir) {
        (Some(DiagAction::Salvage { dir, to }), _) => salvage(dir, to, &mut out)?,
        (Some(DiagAction::Dump { file, limit }), _) => {
            let more = dump(file, *limit, |line| writeln!(out, "{line}"))
                .with_context(|| format!("cannot print {}", file.display()))?;
            if more > 0 {
                writeln!(out, "... and {more} more: --limit shows them")?;
            }
            0
        }
        (None, Some(dir)) => list(dir, args.verify, &mut out)?,
        (None, None) => anyhow::bail!("name the directory: warren diag DIR"),
    };
    out.flush()?;
    Ok(if problems > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Lists a directory; gives the number of problems when they are asked for.
fn list(dir: &Path, verify: bool, out: &mut impl Write) -> anyhow::Result<u64> {
    let depth = if verify { Depth::Blocks } else { Depth::Lengths };
    let survey = Offline::open(dir)?.survey(depth)?;
    show(&survey, out)?;
    let count = show_problems(&survey.problems, out)?;
    if count == 0 && verify {
        writeln!(out, "\nverified: nothing is wrong")?;
    } else if count > 0 {
        writeln!(out, "\n`warren diag salvage {} --to NEWDIR` copies what can be read", dir.display())?;
    }
    Ok(if verify { count } else { 0 })
}

fn show(survey: &Survey, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "files")?;
    survey.files.iter().try_for_each(|file| show_file(file, out))?;
    let (segments, unneeded) = (survey.segments, survey.segments_unneeded);
    writeln!(out, "  segments: {segments} files, {unneeded} of them not needed")?;
    writeln!(out, "  records of queues that are not there any more: {}", survey.stray_records)?;
    writeln!(out)?;
    show_contents(survey, out)
}

/// Vhosts of which something is not known, queues and notes.
fn show_contents(survey: &Survey, out: &mut impl Write) -> anyhow::Result<()> {
    let vhosts = &survey.outdated_vhosts;
    if !vhosts.is_empty() {
        writeln!(out, "vhosts")?;
        vhosts.iter().try_for_each(|vhost| show_vhost(vhost, out))?;
        writeln!(out)?;
    }
    writeln!(out, "queues")?;
    survey.queues.iter().try_for_each(|queue| show_queue(queue, out))?;
    show_notes(&survey.notes, out)
}

fn show_vhost(vhost: &OutdatedVhost, out: &mut impl Write) -> anyhow::Result<()> {
    let OutdatedVhost { name, queues, exchanges, bindings } = vhost;
    Ok(writeln!(
        out,
        "  '{name}': {queues} durable queues, {exchanges} exchanges, {bindings} bindings; what was declared, bound, set or deleted in what is LOST of \
         meta/ is not known"
    )?)
}

fn show_file(file: &FileSurvey, out: &mut impl Write) -> anyhow::Result<()> {
    let (path, first, bytes) = (file.path.display(), file.first, file.bytes);
    write!(out, "  {path}: from position {first}, {bytes} bytes")?;
    for (kind, count) in &file.records {
        write!(out, ", {count} {}", dump::kind_name(file.log, *kind))?;
    }
    if file.damaged_bytes > 0 {
        write!(out, ", {} bytes DAMAGED", file.damaged_bytes)?;
    }
    if file.unfinished_bytes > 0 {
        write!(out, ", {} bytes of an unfinished write", file.unfinished_bytes)?;
    }
    Ok(writeln!(out)?)
}

fn show_queue(queue: &QueueSurvey, out: &mut impl Write) -> anyhow::Result<()> {
    let QueueSurvey { vhost, name, id, messages, body_bytes, lost_messages, lost_bytes, .. } = queue;
    let QueueSurvey {
        unread_messages_max,
        untold_loss,
        returned_messages,
        doubtful_messages,
        lost_from,
        declaration,
        ..
    } = queue;
    write!(out, "  '{name}' in vhost '{vhost}' (number {id}): {messages} messages, {body_bytes} bytes")?;
    if *returned_messages > 0 {
        write!(
            out,
            ", {returned_messages} of them FOUND in segments without their state: settled ones come again"
        )?;
    }
    if *lost_messages > 0 {
        let places = places(lost_from);
        write!(out, ", {lost_messages} messages of {lost_bytes} bytes LOST {places}")?;
    }
    if *doubtful_messages > 0 {
        let places = places(lost_from);
        write!(
            out,
            ", {doubtful_messages} messages LOST {places}, or settled in records of log/ that cannot be read"
        )?;
    }
    if *unread_messages_max > 0 {
        write!(out, ", up to {unread_messages_max} messages LOST with records of log/ that cannot be read")?;
    }
    match untold_loss {
        None => {}
        Some(UntoldLoss::AtMost(most)) => {
            write!(
                out,
                ", what it LOST with records of log/ of which nothing behind them tells is not known: {most} messages at most"
            )?;
        }
        Some(UntoldLoss::Unknown) => {
            write!(out, ", what it LOST with log/ is not known")?;
        }
    }
    match declaration {
        Declaration::Known => {}
        Declaration::Outdated => {
            write!(out, ", whether it was deleted or bound otherwise in what is LOST of meta/ is not known")?;
        }
        Declaration::Lost => {
            write!(
                out,
                ", its name, arguments and bindings are LOST with meta/, and whether it was deleted"
            )?;
        }
    }
    Ok(writeln!(out)?)
}

/// With what messages were lost; how many with each, if it was not one thing.
fn places(from: &LostFrom) -> String {
    let LostFrom { segments, log, bodies } = from;
    let all = [
        (segments, "with their segments"),
        (log, "with blocks that stayed in log/"),
        (bodies, "with shared bodies"),
    ];
    let lost: Vec<(&u64, &str)> = all.into_iter().filter(|(messages, _)| **messages > 0).collect();
    match &lost[..] {
        [(_, place)] => (*place).to_owned(),
        several => {
            let each: Vec<String> =
                several.iter().map(|(messages, place)| format!("{messages} {place}")).collect();
            format!("({})", each.join(", "))
        }
    }
}

fn show_notes(notes: &[String], out: &mut impl Write) -> anyhow::Result<()> {
    if !notes.is_empty() {
        writeln!(out, "\nnotes")?;
    }
    Ok(notes.iter().try_for_each(|text| writeln!(out, "  {text}"))?)
}

fn show_problems(problems: &Problems, out: &mut impl Write) -> anyhow::Result<u64> {
    if problems.is_empty() {
        return Ok(0);
    }
    writeln!(out, "\nproblems")?;
    problems.texts.iter().try_for_each(|text| writeln!(out, "  {text}"))?;
    if problems.more > 0 {
        writeln!(out, "  and {} more", problems.more)?;
    }
    Ok(problems.texts.len() as u64 + problems.more)
}

/// Salvages; gives the number of problems met.
fn salvage(dir: &Path, to: &Path, out: &mut impl Write) -> anyhow::Result<u64> {
    let salvaged = Offline::open(dir)?.salvage(to)?;
    show_contents(&salvaged.survey, out)?;
    let count = show_problems(&salvaged.survey.problems, out)?;
    let (messages, segments) = (salvaged.messages, salvaged.segments);
    writeln!(out, "\n{}: {messages} messages, {segments} segment files", to.display())?;
    if count > 0 {
        writeln!(
            out,
            "Messages whose records are damaged are lost; messages whose settlement is damaged come again."
        )?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(queue: &QueueSurvey) -> String {
        let mut out = Vec::new();
        show_queue(queue, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_line_of_a_queue_says_with_what_its_messages_were_lost() {
        let lost = |lost_messages, lost_from| QueueSurvey {
            lost_messages,
            lost_bytes: 70,
            lost_from,
            ..QueueSurvey::default()
        };
        let one = line(&lost(7, LostFrom { log: 7, ..LostFrom::default() }));
        assert!(one.contains(", 7 messages of 70 bytes LOST with blocks that stayed in log/"), "{one}");
        let both = line(&lost(7, LostFrom { segments: 4, log: 0, bodies: 3 }));
        assert!(both.contains(" LOST (4 with their segments, 3 with shared bodies)"), "{both}");
        let from = LostFrom { segments: 5, ..LostFrom::default() };
        let doubtful = line(&QueueSurvey { doubtful_messages: 5, lost_from: from, ..QueueSurvey::default() });
        assert!(doubtful.contains(", 5 messages LOST with their segments, or settled in"), "{doubtful}");
    }
}
