"""docs/README.md leads to every page."""

import re

from shown import ROOT

DOCS = ROOT / "docs"


def test_the_index_has_every_page():
    pages = {
        path.relative_to(DOCS).as_posix()
        for folder in (".", "design", "operating")
        for path in (DOCS / folder).glob("*.md")
    }
    linked = set(re.findall(r"\]\(([\w/.-]+\.md)\)", (DOCS / "README.md").read_text()))
    assert len(pages) > 30
    assert pages - linked == {"README.md"}
