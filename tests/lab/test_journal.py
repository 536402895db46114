"""Events of a gateway with systemd are in its journal, with their fields, in the order in which they happened."""

from __future__ import annotations

import json

import pytest
import systems

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(systems.missing() is not None, reason=str(systems.missing())),
    pytest.mark.timeout(600),
]


def test_what_happened_is_in_the_journal(tmp_path):
    boot = systems.boot(tmp_path / "disk.img", tmp_path / "state", "journal-events", systems.BUILD).good()
    told: dict[str, list[str]] = {}
    for line in boot.output.splitlines():
        word, _, rest = line.partition(" ")
        told.setdefault(word, []).append(rest)

    events = json.loads(told["events"][0])["events"]
    entries = [json.loads(line) for line in told["journal"]]
    assert [one["IRAID_KIND"] for one in entries] == [one["kind"] for one in events]
    assert {"assembled", "failed by hand", "member evicted"} <= {one["kind"] for one in events}
    for entry, event in zip(entries, events, strict=True):
        assert entry["MESSAGE"] == f"volume v0: {event['text']}"
        assert entry.get("IRAID_MEMBER", "") == event["member"]
        assert (entry["SYSLOG_IDENTIFIER"], entry["_PID"]) == ("iraid", told["pid"][0])
        assert entry["_SYSTEMD_UNIT"] == "tcmu-runner.service"
        assert 0 <= int(entry["PRIORITY"]) <= 6
    evicted = next(one for one in entries if one["IRAID_KIND"] == "failed by hand")
    assert int(evicted["PRIORITY"]) == 4  # a warning
    assert "member1" in evicted["IRAID_MEMBER"]
    assert told["readable"] == [evicted["MESSAGE"]]
    (tmp_path / "disk.img").unlink()
