"""Runs iscsi-test-cu, one process for each test.

A test that kills the tool, or in which it hangs (its library reconnects and repeats for ever when a session
is dropped), is a failure with that test's name, and the next one begins with a new process and new sessions. At its
start the tool clears the persistent reservations that the one before may have left.
"""

from __future__ import annotations

import fnmatch
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .cu_output import FAILED, CuOutput, listed, parse
from .results import Result

TOOL = "iscsi-test-cu"
INITIATORS = ("iqn.2026-01.org.iraid.test:conformance-1", "iqn.2026-01.org.iraid.test:conformance-2")
HANGS_IN_A_ROW_MAX = 6  # then the LUN is taken for dead
LOG_BYTES_MAX = 1 << 20


class ToolError(Exception):
    """The tool itself can't be used; the text says why and what to do."""


@dataclass(frozen=True)
class Address:
    """Where a LUN is: two portals of the one target."""

    portals: tuple[str, ...]
    iqn: str
    lun: int = 0

    def urls(self) -> list[str]:
        return [f"iscsi://{portal}/{self.iqn}/{self.lun}" for portal in self.portals]


def all_tests() -> list[str]:
    try:
        done = subprocess.run([TOOL, "--list"], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        raise ToolError(f"{TOOL} is not installed; run scripts/deps as root") from None
    names = listed(done.stdout)
    if not names:
        raise ToolError(f"{TOOL} --list names no tests (status {done.returncode}): {done.stderr.strip()}")
    return names


def select(names: list[str], wanted: list[str]) -> list[str]:
    """Those of a family (SCSI), a suite (Read10, SCSI.Read10), a test (SCSI.Read10.Simple) or a pattern of these."""
    if not wanted:
        return names
    chosen: set[str] = set()
    for word in wanted:
        found = [name for name in names if _is_meant(name, word)]
        if not found:
            families = ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            raise ToolError(
                f"--families {word}: no test of {TOOL} is called so; name a family ({families}), a "
                f"suite or a test of {TOOL} --list"
            )
        chosen.update(found)
    return [name for name in names if name in chosen]


def _is_meant(name: str, word: str) -> bool:
    family, suite, test = name.split(".")
    forms = (family, suite, f"{family}.{suite}", f"{suite}.{test}", name)
    return any(fnmatch.fnmatchcase(form, word) for form in forms)


def words_of(name: str, address: Address) -> list[str]:
    """The second path is given to the tests of several paths only: the others use the first alone, and would pay
    for the login."""
    urls = address.urls()
    paths = urls if name.split(".")[1] == "MultipathIO" else urls[:1]
    # Its output must be in the file when the tool is killed: line by line.
    return [
        "stdbuf",
        "-oL",
        TOOL,
        "--dataloss",
        "--allow-sanitize",
        "--verbose",
        "--Verbose-scsi",
        f"--initiator-name={INITIATORS[0]}",
        f"--initiator-name-2={INITIATORS[1]}",
        f"--test={name}",
        *paths,
    ]


def judge(name: str, output: CuOutput, status: int | None, limit_seconds: float, errors: str = "") -> Result:
    """`status`: what the tool ended with, negative for a signal; None: it was killed when its time was over."""
    _, suite, test_name = name.split(".")
    test = output.find(suite, test_name)
    said = errors.strip().splitlines()[-1:] or output.before[-1:]
    complaints = test.complaints if test else []
    if status is None:
        where = test.last_words() if test else [f"before the test began: {' '.join(said)}"]
        return Result(FAILED, [f"did not end within {limit_seconds:g} s", *where], complaints)
    if status < 0:
        where = test.last_words() if test else ["before the test began"]
        return Result(FAILED, [f"the tool was killed by {signal.Signals(-status).name}", *where], complaints)
    if test is None:
        return Result(FAILED, [f"did not begin, the tool ended with status {status}: {' '.join(said)}"])
    verdict, reasons = test.judged()
    expected = (0, 1) if verdict == FAILED else (1, 0)
    if test.verdict is not None and (output.counted != expected or status != expected[1]):
        return Result(
            FAILED,
            [
                f"the tool ended with status {status} and counted {output.counted} (passed, failed) "
                f"after '{test.verdict}'",
                *reasons,
            ],
            complaints,
        )
    return Result(verdict, reasons, complaints)


def run_test(name: str, address: Address, limit_seconds: float, log: Path) -> Result:
    begin = time.monotonic()
    with log.open("wb") as out, log.with_suffix(".errors").open("w+") as errors:
        process = subprocess.Popen(
            words_of(name, address), stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
        )
        try:
            status: int | None = process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        errors.seek(0)
        told = errors.read()
    result = judge(name, parse(log.read_text(errors="replace")), status, limit_seconds, told)
    result.seconds = round(time.monotonic() - begin, 2)
    log.with_suffix(".errors").unlink()
    return result


def keep_log(log: Path, folder: Path, name: str) -> None:
    """Its begin and its end, where it is long."""
    text = log.read_bytes()
    if len(text) > LOG_BYTES_MAX:
        text = text[: LOG_BYTES_MAX // 2] + b"\n[...]\n" + text[-LOG_BYTES_MAX // 2 :]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.log").write_bytes(text)


class Suite:
    """All chosen tests against one LUN."""

    def __init__(self, names: list[str], limit_seconds: float, scratch: Path, logs: Path, say: Callable[[str], None]):
        self.names = names
        self.limit_seconds = limit_seconds
        self.scratch = scratch
        self.logs = logs
        self.say = say

    def run(self, label: str, address: Address, results: dict[str, Result], keep: Callable[[], None]) -> None:
        """Fills `results`; `keep` is called after each suite."""
        hangs = 0
        for suite in dict.fromkeys(name.rpartition(".")[0] for name in self.names):
            members = [name for name in self.names if name.rpartition(".")[0] == suite]
            for name in members:
                if hangs >= HANGS_IN_A_ROW_MAX:
                    results[name] = Result(FAILED, [f"not run: the LUN did not answer in the {hangs} tests before"])
                    continue
                results[name] = self._one(label, name, address)
                hangs = hangs + 1 if results[name].seconds >= self.limit_seconds else 0
            self._say_suite(label, suite, [results[name] for name in members])
            keep()

    def _one(self, label: str, name: str, address: Address) -> Result:
        log = self.scratch / "test.log"
        result = run_test(name, address, self.limit_seconds, log)
        keep_log(log, self.logs / label.replace(" ", "-"), name) if result.verdict != "passed" else None
        if result.verdict == FAILED:
            self.say(f"{label}: {name} failed: {'; '.join(result.reasons)}")
        return result

    def _say_suite(self, label: str, suite: str, results: list[Result]) -> None:
        counts = {
            verdict: sum(result.verdict == verdict for result in results) for verdict in ("passed", "failed", "skipped")
        }
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        self.say(f"{label}: {suite}: {told}, {sum(result.seconds for result in results):.1f} s")
