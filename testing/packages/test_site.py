"""The site of the documents is made, is searchable, and all its links resolve."""

import json
import re
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def site(root, cache, tmp_path_factory):
    mdbook = cache / "packages/python/bin/mdbook"
    if not mdbook.exists():
        pytest.skip("mdBook is not installed: testing/setup.sh packages")
    out = tmp_path_factory.mktemp("site") / "out"
    subprocess.run([sys.executable, root / "packaging/site/site.py", out, mdbook], check=True)
    return out


def test_every_document_is_a_page_and_can_be_found(root, site):
    for document in [*root.glob("docs/*.md"), *root.glob("docs/formats/*.md"), root / "CHANGELOG.md"]:
        page = site / document.relative_to(root).with_suffix(".html")
        assert page.exists(), page
    index = next(site.glob("searchindex*.js")).read_text()
    assert "docs/operating.html" in index and "docs/tls.html" in index


def test_a_link_that_leads_nowhere_is_found(root, site):
    page = site / "docs/tls.html"
    text = page.read_text()
    for wrong, said in [("nowhere.html", "no such page"), ("ui.html#nowhere", "no such place on the page")]:
        page.write_text(text.replace("</main>", f'<a href="{wrong}">x</a></main>'))
        done = subprocess.run([sys.executable, root / "packaging/site/site.py", "--links", site], capture_output=True, text=True)
        assert done.returncode and f"{wrong}: {said}" in done.stderr, done.stderr
    page.write_text(text)
