"""docs/operating/watch.md and doctor.md say what top, doctor, monitor and support have, and nothing else."""

import re

from control_peer import ROOT

from iraid.watch import doctor, monitor, top, verdict
from iraid.watch.notify import SENDMAIL

WATCH = (ROOT / "docs/operating/watch.md").read_text()
DOCTOR = (ROOT / "docs/operating/doctor.md").read_text()


def table(page, first):
    """First cells of the rows of the table whose heading begins so."""
    rows = re.search(rf"^\| {first} \|.*\n\|[-:| ]*\n((?:\|.*\n)+)", page, re.MULTILINE)[1]
    return [row.split("|")[1].strip() for row in rows.splitlines()]


def test_every_column_of_top_is_explained():
    described = [re.split(r",? ", cell) for cell in table(WATCH, "column")]
    words = " ".join(word for cell in described for word in cell)
    assert words == " ".join(column.head for column in top.COLUMNS)


def test_every_verdict_is_explained():
    words = [word for cell in table(WATCH, "word") for word in cell.split(", ")]
    source = (ROOT / "python/iraid/watch/verdict.py").read_text()
    said = set(re.findall(r'"([A-Z]{2,})"', source)) - {"LOST"}
    assert set(words) - {"(no answer)"} == said
    assert set(verdict._STYLES) <= said


def test_every_kind_that_the_monitor_tells_of_itself_is_explained():
    kinds = {kind.strip("`") for cell in table(WATCH, "kind") for kind in cell.split(", ")}
    source = (ROOT / "python/iraid/watch/monitor.py").read_text()
    own = set(re.findall(r'_own\("([^"]+)"', source)) | set(re.findall(r'"(test message|events left out)"', source))
    states = {f"volume {word}" for word in ("degraded", "attention", "waiting", "failed", "suspended")}
    assert kinds == own | states
    assert str(SENDMAIL) in WATCH and f"for {monitor.AWAY_SECONDS:.0f} s" in WATCH


def test_every_check_of_the_doctor_is_explained_in_order():
    assert table(DOCTOR, "check") == [name for name, *_ in doctor.CHECKS]


def test_every_part_of_the_archive_is_named():
    source = (ROOT / "python/iraid/watch/support.py").read_text()
    parts = set(re.findall(r'(?:Part\(\s*f?"|^    \(")([\w./-]+)', source, re.MULTILINE))
    assert len(parts) > 20
    cells = " ".join(table(DOCTOR, "part"))
    for part in parts - {"spares.json"}:
        assert f"`{part}`" in cells or (folder := part.partition("/")[0]) and f"`{folder}/`" in cells, part
