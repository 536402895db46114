"""Steps with their times, shown while they run and kept as JSON after every change.

The file is written by the part inside the lab and read by the part outside; what it says is
right whenever the lab dies: a step that did not end is one that failed.

    IRAID_DEMO_BEGIN     time.time() of the start, packages and build included
    IRAID_DEMO_RESULTS   directory for the file, shared with the host
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

UNFINISHED = "did not end"
REPORT_NAME = "report.json"


@dataclass
class Step:
    name: str
    ok: bool = False
    seconds: float = 0.0
    detail: str = UNFINISHED


@dataclass
class Report:
    """What --json FILE holds, but for what only the caller knows."""

    ok: bool = False
    steps: list[Step] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    logs: str = ""  # the lab's directory

    @classmethod
    def read(cls, path: Path) -> Report:
        """Empty when there is no such file."""
        try:
            value = json.loads(path.read_text())
        except FileNotFoundError:
            return cls()
        return cls(**value | {"steps": [Step(**step) for step in value["steps"]]})

    def write(self, path: Path) -> None:
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(asdict(self), indent=2) + "\n")
        new.rename(path)


class Progress:
    """Runs steps.  Times are shown since `begin` (time.time(), so that it may be another's)."""

    def __init__(self, begin: float, path: Path | None = None):
        self.begin = begin
        self.report = Report()
        self._path = path

    def line(self, text: str) -> None:
        print(f"{time.time() - self.begin:6.1f} s  {text}", flush=True)

    def say(self, text: str) -> None:
        """A line below the running step."""
        self.line(f"    {text}")

    def keep(self) -> None:
        if self._path:
            self.report.write(self._path)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Whatever leaves the block is this step's failure, and goes on to the caller.

        A block may set the seconds itself, if the work was done before.
        """
        step = Step(name)
        self.report.steps.append(step)
        self.line(name)
        self.keep()
        started = time.monotonic()
        try:
            yield step
        except BaseException as error:
            step.detail = str(error).strip() or type(error).__name__
            raise
        else:
            step.ok = True
            step.detail = "" if step.detail == UNFINISHED else step.detail
        finally:
            step.seconds = round(step.seconds or time.monotonic() - started, 2)
            self.keep()
            verdict = "ok" if step.ok else "FAILED"
            self.say(f"{verdict}, {step.seconds:.1f} s" + (f": {step.detail}" if step.detail else ""))


def progress_inside() -> Progress:
    """The one of a program in the lab."""
    begin = float(os.environ["IRAID_DEMO_BEGIN"])
    progress = Progress(begin, Path(os.environ["IRAID_DEMO_RESULTS"]) / REPORT_NAME)
    progress.report.logs = os.environ["IRAID_LAB_STATE"]
    return progress
