"""What iscsi-test-cu (libiscsi) printed, test by test, and what that is worth.

    Suite: Read10                                     what CUnit prints starts at the margin, or two
      Test: Simple ...                                blanks from it; what the test logs (with
        Test READ10 of 1-256 blocks                   --Verbose-scsi) is indented by four
        [OK] READ10 returned SUCCESS
    passed                                            or FAILED, then "    1. file.c:38  - condition"

The tool knows no skipped tests: CUnit has "passed" and "FAILED", and a test that leaves itself out passes.
So a test that passed is one that was SKIPPED
  - when it logged [SKIPPED] or [SKIPPING], be it for one of its parts only: then a part was not tested;
  - when it logged nothing at all: some leave themselves out without a word (no block limits page, a
    LUN too small or too big), and every test that does something logs it.
What is logged after the verdict belongs to the suite's end (persistent reservations are cleared there), what is
logged before the first test to the tool's start, and neither to a test.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
SILENT = "the tool left it out without saying why"
REASONS_MAX = 4  # a failed assertion in a loop fails thousands of times
REASON_CHARACTERS_MAX = 200

_SUITE = re.compile(r"Suite: (\S+)\s*$")
_TEST = re.compile(r"  Test: (\S+) \.\.\.(.*)$")
_VERDICT = re.compile(r"(passed|FAILED)(?=$|    \S)")
_ASSERTION = re.compile(r"    \d+\. (\S+:\d+)\s+- (.*?)(?:    Send PRIN/READ_KEYS)?$")
_SKIPPED = re.compile(r"\[SKIPP(?:ED|ING)\] *(.*)")
_NOT_REPORTED = re.compile(r"\[WARNING\] (CONTROL page was not returned)")  # then the test ends
_FAILED = re.compile(r"\[FAIL(?:ED|URE)?\] *(.*)")
_COUNTS = re.compile(r"\s+tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s")


@dataclass
class CuTest:
    suite: str
    name: str
    verdict: str | None = None  # None: the tool ended before CUnit gave one
    log: list[str] = field(default_factory=list)
    assertions: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """What it logged as [FAILED], even if CUnit let it pass."""
        return _distinct(_matches(_FAILED, self.log))

    @property
    def skips(self) -> list[str]:
        found = _distinct(_matches(_SKIPPED, self.log) + _matches(_NOT_REPORTED, self.log))
        return found if found or self.log else [SILENT]

    def judged(self) -> tuple[str, list[str]]:
        """passed, failed or skipped, and why."""
        if self.verdict == FAILED:
            return FAILED, (self.complaints[-2:] + self.assertions[:2])[:REASONS_MAX]
        if self.verdict is None:
            return FAILED, ["the tool ended in the middle of it", *self.last_words()]
        return (SKIPPED, self.skips[:REASONS_MAX]) if self.skips else (PASSED, [])

    def last_words(self) -> list[str]:
        return [f"last logged: {_cut(self.log[-1])}"] if self.log else []


@dataclass
class CuOutput:
    tests: list[CuTest] = field(default_factory=list)
    counted: tuple[int, int] | None = None  # (passed, failed) by CUnit's own summary, if it came so far
    before: list[str] = field(default_factory=list)  # what was logged before the first suite

    def find(self, suite: str, name: str) -> CuTest | None:
        return next((test for test in self.tests if (test.suite, test.name) == (suite, name)), None)


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 3] + "..."


def _matches(pattern: re.Pattern[str], lines: list[str]) -> list[str]:
    return [_cut(found[1]) for line in lines if (found := pattern.search(line))]


def _distinct(texts: list[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def parse(text: str) -> CuOutput:
    output = CuOutput()
    suite, test = "", None
    for line in text.splitlines():
        if found := _SUITE.match(line):
            suite, test = found[1], None
        elif found := _TEST.match(line):
            test = CuTest(suite, found[1])
            output.tests.append(test)
            _log_or_verdict(test, found[2])
        elif found := _COUNTS.match(line):
            output.counted, test = (int(found[3]), int(found[4])), None
        elif test is None:
            if not suite and line.strip():
                output.before.append(line.strip())
        elif test.verdict is None:
            _log_or_verdict(test, line)
        elif test.verdict == FAILED and (found := _ASSERTION.match(line)):
            test.assertions.append(_cut(f"{found[1]} {found[2]}"))
    return output


def _log_or_verdict(test: CuTest, text: str) -> None:
    if found := _VERDICT.match(text):
        test.verdict = PASSED if found[1] == "passed" else FAILED
    elif text.strip():
        test.log.append(text.strip())


def listed(text: str) -> list[str]:
    """FAMILY.SUITE.TEST of everything in the tool's --list, once: its families ALL and LINUX hold nothing
    that isn't in SCSI or iSCSI."""
    names = [line.strip() for line in text.splitlines() if line.count(".") == 2]
    own = [name for name in names if name.split(".")[0] not in ("ALL", "LINUX")]
    seen = {name.partition(".")[2] for name in own}
    return own + [name for name in names if name.startswith(("ALL.", "LINUX.")) and name.partition(".")[2] not in seen]
