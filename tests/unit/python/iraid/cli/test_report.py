"""What people see: on a narrow terminal, and in a pipe."""

import io
import re
import subprocess
import sys

import control_peer
import pytest
from control_peer import NO_SCRUB, member, running, volume, work, write_log

from iraid.cli.report import Report
from iraid.control import model


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class AsciiTerminal(Terminal):
    encoding = "ascii"


def shown(stream, show, width=80):
    show(Report(stream, width=width))
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()) if stream.isatty() else stream.getvalue()


def a_volume(**changes):
    return model.read(model.Volume, volume(**changes))


DEGRADED = volume(
    state="degraded",
    reason="member 2 is out",
    resync=running(corrected_rows=7),
    members=[
        member(0),
        member(1),
        member(2, state="faulty", link="closed", reason="silent for 5.0 s, given up"),
        member(3),
    ],
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("stream", [Terminal, io.StringIO], ids=["terminal", "pipe"])
def test_a_name_from_a_target_does_not_command_the_terminal(stream):
    def show(report):
        report.line("disk\x1b[2J\x9b3J")
        report.table(["name"], [["disk\x1b]0;title\x07"]])

    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown(stream(), show))


def test_a_sentence_in_a_pipe_is_plain_and_does_without_the_tables_library():
    """Which would take half of the time of a command."""
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from iraid.cli import main, report\n"
            "report.Report().line('one\\ttwo\\a [bold]three[/bold] :smile:\\r')\n"
            "print([name for name in sys.modules if name.startswith('rich')])",
        ],
        cwd=control_peer.ROOT / "python",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout
    assert said == "one     two [bold]three[/bold] :smile:\n[]\n"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_keep_to_the_width_of_the_terminal_and_lose_nothing(width):
    degraded = model.read(model.Volume, DEGRADED)
    text = shown(Terminal(), lambda report: report.status(degraded), width)
    assert max(map(len, text.splitlines())) <= width
    assert "silentfor5.0s,givenup" in "".join(text.split())
    assert "faulty" in text
    if width >= 120:
        assert "10.0.0.3:3260/iqn.2026-01.org.example:disk2/0" in text


def test_the_list_fits_eighty_columns():
    text = shown(
        Terminal(),
        lambda report: report.volumes(
            [a_volume(), model.read(model.Volume, DEGRADED | {"name": "a-volume-with-a-long-name"})]
        ),
    )
    assert max(map(len, text.splitlines())) <= 80
    for word in ("P-iRAID", "active", "degraded", "300 GiB", "4 of 4", "3 of 4", "resync 43.1 %"):
        assert word in text


def test_in_a_pipe_a_row_is_one_plain_line_however_long():
    long_name = "gateway-with-a-very-long-name.storage.example.org"
    iqn = "iqn.2026-01.org.example:" + "x" * 150
    members = [member(i, member=f"{long_name}:3260/{iqn}/0") for i in range(3)]
    text = shown(io.StringIO(), lambda report: report.status(a_volume(members=members)))
    lines = [line for line in text.splitlines() if f"{long_name}:3260/{iqn}/0" in line]
    assert len(lines) == 3
    assert all("in sync" in line and "open" in line for line in lines)
    assert text.isascii()
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_in_a_pipe_reasons_are_one_line_each():
    reason = "login refused: " + "word " * 60 + "end"
    members = [member(0, state="missing", link="closed", reason=reason), member(1), member(2)]
    text = shown(io.StringIO(), lambda report: report.status(a_volume(members=members)))
    assert [line for line in text.splitlines() if line.endswith(reason)]


def test_members_that_are_out_show_why_and_the_others_do_not():
    text = shown(io.StringIO(), lambda report: report.status(model.read(model.Volume, DEGRADED)))
    assert "10.0.0.3:3260/iqn.2026-01.org.example:disk2/0 is faulty: silent for 5.0 s, given up" in text.splitlines()
    assert text.count(" is faulty") == 1
    assert "no reason" not in text


def test_a_member_that_is_out_without_a_reason_says_so():
    text = shown(
        io.StringIO(),
        lambda report: report.status(a_volume(members=[member(0, state="missing", reason=None), member(1), member(2)])),
    )
    assert "is missing: the reason is not known" in text


@pytest.mark.parametrize(
    ("stream", "bar"),
    [
        (Terminal(), "\u2588" * 8 + "\u2591" * 12),
        (AsciiTerminal(), "[########............]"),
        (io.StringIO(), "[########............]"),
    ],
)
def test_resync_is_a_bar_and_a_percentage(stream, bar):
    text = shown(stream, lambda report: report.status(model.read(model.Volume, DEGRADED)), 120)
    assert f"{bar} 43.1 %, 120 MiB/s of each member, 2 min 10 s left, 431 of 1000 rows, 7 corrected" in " ".join(
        text.split()
    )


def test_an_ascii_terminal_gets_no_box_drawing():
    assert shown(AsciiTerminal(), lambda report: report.status(a_volume())).isascii()


def test_text_in_brackets_is_shown_as_it_is():
    """IPv6 portals look like rich's markup."""
    members = [member(i, member=f"[fd00::{i}]:3260/iqn.2026-01.org.example:t/0") for i in range(3)]
    text = shown(io.StringIO(), lambda report: report.status(a_volume(members=members)))
    assert "[fd00::2]:3260/iqn.2026-01.org.example:t/0" in text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("active", "active"),
        ("degraded", "less redundancy"),
        ("assembling", "waiting for members"),
        ("suspended", "I/O waits"),
        ("failed", "does not work"),
        ("stopped", "stopped"),
        ("a-new-one", "a-new-one"),
    ],
)
def test_states_are_said_in_words(state, words):
    text = shown(io.StringIO(), lambda report: report.status(a_volume(state=state)))
    line = next(line for line in text.splitlines() if line.startswith("State"))
    assert words in line


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        ({}, "10 of 4 MiB per member: none is dirty, suspect or stale"),
        ({"dirty": 3}, "10 of 4 MiB per member: 3 dirty (written lately; a crash means to look at these again)"),
        (
            {"suspect": 2, "stale": 1},
            "2 suspect (parity or copies not proven yet), 1 stale (a member that is out lacks",
        ),
    ],
)
def test_marks_of_regions_are_explained_where_they_are_shown(marks, words):
    regions = {"total": 10, "dirty": 0, "suspect": 0, "stale": 0, "region_bytes": 4 << 20} | marks
    text = shown(io.StringIO(), lambda report: report.status(a_volume(regions=regions)), width=200)
    assert words in text


def test_a_stopped_volume_of_which_little_is_known_is_shown():
    stopped = model.Volume(name="v0", state="stopped")
    text = shown(io.StringIO(), lambda report: report.status(stopped))
    assert "stopped" in text
    assert "v0" in shown(io.StringIO(), lambda report: report.volumes([stopped]))


REBUILDING = volume(
    state="degraded",
    rebuild=running(member=member(4)["member"]),
    lost={"extents": 2, "bytes": 8192},
    medium_repaired=3,
    reads_hedged=17,
    empty_roles=[0],
    members=[
        member(1),
        member(2, slow=True, latency_ms=480, medium_errors=3, medium_repaired=2),
        member(3),
        member(4, role=0, state="rebuilding"),
        member(5, role=None, state="spare"),
        member(6, role=None, state="out of date", reason="its place was taken"),
    ],
)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, None),
        ({"log": write_log(mode="off", too_small=True)}, None),
        ({"state": "stopped", "log": write_log(mode="always")}, None),
        ({"state": "degraded", "level": 1, "log": write_log(mode="off")}, None),
        ({"state": "degraded", "log": {}}, None),
        (
            {"state": "degraded", "log": write_log(open=True, records=1234, bytes=3 << 20)},
            "writes are logged: 1234 records, 3 MiB to replay after a crash",
        ),
        ({"state": "degraded", "log": write_log()}, "writes are not logged yet"),
        (
            {"state": "degraded", "log": write_log(), "regions": {"total": 16, "suspect": 9}},
            "writes are not logged yet: 9 regions must be verified first",
        ),
        (
            {"log": write_log(mode="always", open=True, records=7, bytes=8192)},
            "writes are logged: 7 records, 8 KiB to replay after a crash",
        ),
        (
            {"log": write_log(mode="always"), "regions": {"total": 16, "suspect": 9}},
            "writes are not logged yet: 9 regions must be verified first",
        ),
        ({"state": "degraded", "log": write_log(mode="off")}, "off: writes are not logged"),
        (
            {"log": write_log(given_up=True)},
            "GIVEN UP: it could not be written; try it again: iraid set v0 --log degraded",
        ),
        (
            {"log": write_log(mode="always", given_up=True)},
            "GIVEN UP: it could not be written; try it again: iraid set v0 --log always",
        ),
        ({"log": write_log(too_small=True)}, "the members have too little room for it: writes are not logged"),
        (
            {
                "state": "assembling",
                "log": write_log(replay={"step": "is replayed", "done_chunks": 120, "total_chunks": 400}),
            },
            "it is replayed, 120 of 400 chunks",
        ),
        (
            {"state": "assembling", "log": write_log(replay={"step": "is read", "done_chunks": 0, "total_chunks": 0})},
            "it is read",
        ),
    ],
)
def test_the_write_log_is_shown_when_it_matters(changes, line):
    text = shown(io.StringIO(), lambda report: report.status(a_volume(**changes)))
    found = re.search(r"^Write log +(.*)$", text, re.MULTILINE)
    assert (found[1] if found else None) == line


def test_members_show_how_far_they_are_and_what_is_wrong_with_them():
    text = shown(io.StringIO(), lambda report: report.status(model.read(model.Volume, REBUILDING)))
    lines = {line.split()[1]: line for line in text.splitlines() if re.match(r"[0-9-] ", line)}
    assert "rebuilding 43 %" in lines[member(4)["member"]]
    assert "in sync, slow" in lines[member(2)["member"]]
    assert " spare " in lines[member(5)["member"]]
    assert re.search(
        rf"^Rebuild +{member(4)['member']} .*43.1 %, 120 MiB/s of each member, 2 min 10 s left", text, re.MULTILINE
    )
    assert re.search(r"^LOST +8 KiB in 2 places: iraid lost v0$", text, re.MULTILINE)
    assert re.search(r"^Repaired +3 medium errors rewritten, 17 slow reads answered", text, re.MULTILINE)
    for words in (
        "is slow (480 ms a command)",
        "3 medium errors, 2 repaired",
        "its place was taken",
        "Role 0 has no device: iraid replace v0 0 DEVICE",
        "10 MiB/s to 1 GiB/s of each member",
    ):
        assert words in text


def test_the_list_counts_spares_apart_and_shows_a_rebuild():
    text = shown(
        io.StringIO(), lambda report: report.volumes([model.read(model.Volume, REBUILDING | {"empty_roles": []})])
    )
    assert "3 of 4 + 1 spare" in text
    assert "rebuild 43.1 %" in text


@pytest.mark.parametrize(
    ("scrub", "words"),
    [
        ({}, "none yet"),
        (running(active=True, mode="check", mismatches=1), "check [########............] 43.1 %"),
        (
            work(active=True, mode="check", reason="waits until all members are in sync", done_rows=1, total_rows=9),
            "waits until all members are in sync",
        ),
        (work(mode="check", total_rows=1000), "check done; all rows match"),
        (
            work(mode="repair", total_rows=1000, mismatches=2, mismatch_offsets=[0, 196608]),
            "repair done; 2 rows did not match and were corrected",
        ),
        (work(mode="check", total_rows=1000, done_rows=250), "check stopped at 25.0 %"),
    ],
)
def test_scrub_says_what_it_does_or_did(scrub, words):
    one = a_volume(scrub=NO_SCRUB | scrub)
    assert words in shown(io.StringIO(), lambda report: report.scrub(one))


def test_scrub_says_where_rows_did_not_fit_and_what_to_do():
    one = a_volume(scrub=NO_SCRUB | work(mode="check", total_rows=9, mismatches=3, mismatch_offsets=[0, 196608]))
    text = shown(io.StringIO(), lambda report: report.scrub(one))
    assert "bytes of the volume: 0, 196608 ..." in text
    assert "iraid scrub start v0 --repair" in text


@pytest.mark.parametrize(
    ("level", "words"),
    [(5, "the data is taken as right"), (6, "Where the others agree against one member it is the one corrected")],
)
def test_scrub_says_what_a_repair_takes_as_right(level, words):
    one = a_volume(level=level, scrub=NO_SCRUB | work(mode="check", total_rows=9, mismatches=1, mismatch_offsets=[0]))
    assert words in shown(io.StringIO(), lambda report: report.scrub(one))


def test_lost_extents_are_listed_with_what_to_do():
    extents = [model.Extent(4096, 512), model.Extent(1 << 30, 1024)]
    text = shown(io.StringIO(), lambda report: report.lost("v0", extents))
    for words in ("4096", "1073741824", "1.5 KiB in 2 places", "iraid lost v0 --accept"):
        assert words in text
    assert "has lost nothing" in shown(io.StringIO(), lambda report: report.lost("v0", []))


def test_no_volumes_says_how_to_make_one():
    assert "iraid create" in shown(io.StringIO(), lambda report: report.volumes([]))


def test_discovery_shows_luns_errors_and_how_members_are_named():
    found = model.read(
        model.Discovery,
        {
            "targets": [
                {
                    "iqn": "iqn.2026-01.org.example:a",
                    "portals": ["10.0.0.1:3260,1"],
                    "luns": [
                        {
                            "lun": 0,
                            "vendor": "IET",
                            "product": "VIRTUAL-DISK",
                            "serial": "s",
                            "size_bytes": 1 << 40,
                            "block_bytes": 512,
                            "writable": False,
                            "signature": "ext4",
                        }
                    ],
                },
                {"iqn": "iqn.2026-01.org.example:b", "portals": [], "luns": [], "error": "login refused"},
            ]
        },
    )
    text = shown(io.StringIO(), lambda report: report.discovery("10.0.0.1", found))
    for words in ("1 TiB", "ext4 (read-only)", "login refused", "10.0.0.1/IQN/LUN"):
        assert words in text


def test_a_lun_that_could_not_be_looked_at_is_not_taken_for_an_empty_one():
    luns = [{"lun": 0, "error": "blocks of 8 bytes: only 512 and 4096 can be used"}, {"lun": 1}]
    found = model.read(model.Discovery, {"targets": [{"iqn": "iqn.2026-01.org.example:a", "luns": luns}]})
    text = shown(io.StringIO(), lambda report: report.discovery("10.0.0.1", found))
    assert "blocks of 8 bytes" in text and text.count("nothing known") == 1


def test_a_controller_is_not_taken_for_an_empty_disk():
    luns = [{"lun": 0, "vendor": "IET", "product": "Controller", "device_type": 12, "writable": False}, {"lun": 1}]
    found = model.read(model.Discovery, {"targets": [{"iqn": "iqn.2026-01.org.example:a", "luns": luns}]})
    text = shown(io.StringIO(), lambda report: report.discovery("10.0.0.1", found))
    assert text.count("not a disk") == 1 and text.count("nothing known") == 1


def test_discovery_says_how_to_log_in_where_targets_ask_for_chap():
    refused = {"iqn": "iqn.2026-01.org.example:a", "luns": [], "error": "login refused: authentication failed (CHAP)"}
    found = model.read(model.Discovery, {"targets": [refused]})
    text = shown(io.StringIO(), lambda report: report.discovery("10.0.0.1", found))
    assert "iraid discover --chap-file FILE 10.0.0.1" in text
    text = shown(io.StringIO(), lambda report: report.discovery("10.0.0.1", found, "/etc/iraid/secrets/a"))
    assert "compare user and secret in /etc/iraid/secrets/a" in text and "discover --chap-file" not in text


def test_discovery_says_what_was_not_looked_at_and_how_to():
    away = {"iqn": "iqn.2026-01.org.example:a", "portals": ["10.9.9.9:3260"], "luns": [], "skipped": "other hosts"}
    late = {"iqn": "iqn.2026-01.org.example:b", "portals": ["10.0.0.1:3260"], "luns": [], "skipped": "time"}

    def said(*targets: dict) -> str:
        found = model.read(model.Discovery, {"targets": list(targets)})
        return shown(io.StringIO(), lambda report: report.discovery("10.0.0.1", found))

    assert "10.9.9.9:3260" in said(away) and "iraid discover --all-portals 10.0.0.1" in said(away)
    assert "time was over" in said(late) and "iraid examine" in said(late) and "--all-portals" not in said(late)
    for text in (said(away), said(late)):
        assert "not looked at" in text and "no LUNs" not in text


def test_examination_shows_superblock_session_and_advice():
    seen = model.read(
        model.Examination,
        {
            "member": "10.0.0.1:3260/iqn.2026-01.org.example:a/0",
            "device": {
                "vendor": "IET",
                "product": "VIRTUAL-DISK",
                "serial": "beaf",
                "size_bytes": 1 << 30,
                "block_bytes": 512,
                "writable": False,
                "write_cache": True,
            },
            "session": {"first_burst_bytes": 65536, "initial_r2t": True, "advice": ["raise FirstBurst"]},
            "superblock": {"volume_uuid": control_peer.UUID, "clean": False, "member_states": ["in sync", "faulty"]},
            "copies": {"a": "ok", "b": "corrupt: bad crc"},
        },
    )
    text = shown(io.StringIO(), lambda report: report.examination(seen))
    for words in (
        control_peer.UUID,
        "in sync; faulty",
        "advice: raise FirstBurst",
        "initial_r2t yes",
        "read-only: can't be",
        "corrupt: bad crc",
        "volatile",
    ):
        assert words in text
