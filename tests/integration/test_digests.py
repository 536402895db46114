"""CRC32C digests between the backend and targets: what is agreed on, and what becomes of broken bytes."""

from __future__ import annotations

import re

import pytest
from backend_probe import pattern, result
from fake_target import FakeTarget, LoginAnswer

pytestmark = pytest.mark.timeout(120)
WORDS = {"none": "None", "preferred": "CRC32C,None", "required": "CRC32C"}


class Answering(FakeTarget):
    """Answers both digests with one word, and remembers what it was offered."""

    def __init__(self, word: str | None):
        super().__init__(keys={"HeaderDigest": word, "DataDigest": word} if word else {})
        if word is None:
            del self.keys["HeaderDigest"]
        self.offered: dict[str, str] = {}
        self.on_login = self._answer

    def _answer(self, _: object, flags: int, asked: dict[str, str]) -> LoginAnswer:
        self.offered = asked
        return LoginAnswer(flags, self.keys, 0)


def options(wanted: str) -> tuple[str, str]:
    return f"header_digest={wanted}", f"data_digest={wanted}"


# The login


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        ("none", "None"), ("none", None), ("none", "Reject"), ("preferred", "None"), ("preferred", None),
        ("preferred", "NotUnderstood"), ("preferred", "CRC32C"), ("required", "CRC32C"),
    ],
)  # fmt: skip
def test_what_the_target_agrees_to_is_used(start, wanted, word) -> None:
    with Answering(word) as target:
        probe = start(target.member, *options(wanted))
        probe.open()
        assert target.offered["HeaderDigest"] == target.offered["DataDigest"] == WORDS[wanted]
        assert result(probe.ask("write 512 65536 5 iov=37")) == 0  # the target checks digests
        assert target.disk[512 : 512 + 65536] == pattern(512, 65536, 5)
        assert probe.ask("read 512 65536 5 iov=11") == "read 512 65536 0 same"


@pytest.mark.parametrize(
    ("wanted", "word", "reason"),
    [
        ("required", "None", "header_digest is required, but the target has no HeaderDigest=CRC32C: .* = preferred"),
        ("required", None, "header_digest is required"),
        ("required", "Reject", "header_digest is required"),
        ("none", "CRC32C", "insists on HeaderDigest=CRC32C, which was not offered: set header_digest = preferred"),
        ("preferred", "SHA", "a digest that was not offered: set CRC32C or None on the target"),
        ("none", "CRC32C,None", "a digest that was not offered"),
    ],
)  # fmt: skip
def test_a_target_that_agrees_to_something_else_is_not_used(start, wanted, word, reason) -> None:
    with Answering(word) as target:
        probe = start(target.member, *options(wanted))
        closed = probe.ask("open")
        assert re.match(rf"closed EACCES .*{reason}", closed), closed
        assert target.commands == []


@pytest.mark.parametrize("alone", ["header_digest", "data_digest"])
def test_each_of_the_two_can_be_required_alone(start, alone) -> None:
    with Answering("None") as target:
        closed = start(target.member, f"{alone}=required").ask("open")
        assert closed.startswith("closed EACCES ") and f"{alone} is required" in closed, closed
