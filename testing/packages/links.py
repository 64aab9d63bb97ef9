#!/usr/bin/env python3
"""Checks that the relative links of README.md and of the documents below docs/ lead to files of the same folder.

    links.py FOLDER      FOLDER as packages install it; sources that only a checkout has may be missing
"""

import re
import sys
from pathlib import Path

folder = Path(sys.argv[1]).resolve()
pages = [folder / "README.md", *sorted((folder / "docs").glob("*.md"))]
wrong, count = [], 0
for page in pages:
    for target in re.findall(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        count += 1
        path = (page.parent / target).resolve()
        is_source = path.is_relative_to(folder) and path.relative_to(folder).parts[0] not in ("docs",) and path.parent != folder
        if not path.exists() and not (is_source and page.name != "README.md"):
            wrong.append(f"{page.relative_to(folder)}: {target}")
if wrong or count < 50:
    sys.exit(f"links.py: {count} links in {len(pages)} pages; these lead nowhere:\n" + "\n".join(wrong))
print(f"      {count} links of {len(pages)} documents lead somewhere")
