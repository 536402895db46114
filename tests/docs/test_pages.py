"""The other pages' commands that need no kernel, typed in the order in which the page has them."""

from __future__ import annotations

import pytest
from shown import ROOT, blocks
from stage import MIB, Stage

from iraid_dev.stack.private_gateway import Process, build_folder, wait_until

pytestmark = [pytest.mark.long, pytest.mark.no_sanitizer]

OPERATING = ROOT / "docs/operating"
SECTIONS: set[tuple[str, str]] = set()


def section(page: str, heading: str):
    SECTIONS.add((f"docs/operating/{page}", heading))
    return lambda function: function


@section("alarms.md", "Alarms: what each means, and what to do")
def test_what_to_look_at_first_is_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.lose(1)
    stage.follow("Alarms: what each means, and what to do", OPERATING / "alarms.md")
    said = stage.said()
    assert "degraded" in said and f"{stage.member(1)} (role 1) is evicted" in said


@section("advise.md", "Why is it slow: `iraid advise`")
def test_advice_is_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.start()
    stage.follow("Why is it slow: `iraid advise`", OPERATING / "advise.md")
    assert stage.said().count("LIMIT") >= 1
    stage.check()


@section("grow.md", "Growing: a volume in use becomes larger")
def test_growing_is_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    before = stage.status()["size_bytes"]
    for number in range(4):
        stage.farm.resize(number, stage.farm.backing(number).stat().st_size + 8 * MIB)
    stage.follow("Growing: a volume in use becomes larger", OPERATING / "grow.md")
    grown = stage.status()["size_bytes"]
    assert grown == before + 3 * 8 * MIB
    stage.content += bytes(grown - before)
    stage.handle = stage.served.connect()  # an NBD client is told the size when it connects
    stage.check()


@section("config.md", "Change a limit")
@section("config.md", "The same for all volumes")
def test_configuration_is_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume(spare_wait_seconds=60)
    path = stage.gateway.config / "volumes/v0.conf"
    path.write_text(path.read_text().replace("\nspare_wait = 60s\n", "\n"))
    stage.serve()
    stage.follow("Change a limit", OPERATING / "config.md")
    assert "hedge is 200ms, was 500ms." in stage.said()
    stage.follow("The same for all volumes", OPERATING / "config.md")
    assert "spare_wait is 5min, was 1min." in stage.said()
    stage.check()


@section("members.md", "A member fails or hangs")
@section("members.md", "Replace")
@section("members.md", "Spares")
def test_members_are_handled_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.lose(3)
    stage.follow("A member fails or hangs", OPERATING / "members.md")
    assert stage.member(3) in stage.said()
    stage.farm.restart(3)
    stage.wait(lambda status: status["state"] == "active", "the member to be back")
    stage.follow("Replace", OPERATING / "members.md")
    stage.follow("Spares", OPERATING / "members.md")
    assert stage.state_of(4) == stage.state_of(5) == "none"
    stage.check((0, 1, 6, 3))


@section("members.md", "The write log")
def test_the_write_log_is_set_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.follow("The write log", OPERATING / "members.md")
    assert "Write log of volume v0: off" in stage.said()
    assert stage.status()["log"]["mode"] == "degraded"
    stage.check()


@section("members.md", "Scrub")
def test_scrub_is_as_the_page_shows(stage: Stage) -> None:
    """Slowly, so that the second one is still under way when it is stopped."""
    stage.make_volume()
    stage.serve()
    stage.gateway.must("set", "v0", "--rate-min", "4M", "--rate-max", "4M", "--socket", str(stage.served.control))
    stage.follow("Scrub", OPERATING / "members.md")
    assert stage.status()["scrub"]["running"]
    stage.gateway.must("set", "v0", "--rate-max", "1G", "--socket", str(stage.served.control))
    stage.check()


@section("watch.md", "State of the volumes")
@section("watch.md", "iraid top")
@section("watch.md", "Events")
def test_watching_is_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    for heading in ("State of the volumes", "iraid top", "Events"):
        stage.follow(heading, OPERATING / "watch.md")
    assert "v0 OK: survives the loss of any member" in stage.said() and "RTT ms" in stage.said()
    stage.check()


@section("doctor.md", "Support")
def test_support_is_as_the_page_shows(stage: Stage) -> None:
    stage.make_volume()
    stage.serve()
    stage.follow("Support", OPERATING / "doctor.md")
    assert "/superblocks.json" in stage.said()
    stage.check()


SECTIONS.add(("docs/man/iraid-nbdkit-plugin.1.scd", "EXAMPLES"))


def test_nbdkit_serves_as_the_page_shows(stage: Stage) -> None:
    """The first line goes on while the others are typed; the plugin is the one that was built."""
    stage.make_volume()
    (block,) = (block for block in blocks(ROOT / "docs/man/iraid-nbdkit-plugin.1.scd") if block.where == "native")
    first, *others = block.lines()
    sockets = stage.gateway.sockets
    words = first.replace("/run/iraid", str(sockets)).split()
    assert words[0] == "nbdkit" and words.count("iraid") == 1
    words[words.index("iraid")] = str(build_folder() / "handler/adapters/nbdkit-iraid-plugin.so")
    nbdkit = Process(words, stage.gateway.environment(), stage.gateway.folder / "nbdkit-page.log")
    try:
        wait_until(lambda: (sockets / "v0.nbd").exists(), "nbdkit to listen")
        for line in others:
            stage.run(line, str(block))
    finally:
        nbdkit.stop()
    assert f"export-size: {len(stage.content)}" in stage.said() and "P-iRAID" in stage.said()
