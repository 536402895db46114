"""scripts/conformance --tools: tests/end_to_end/test_stock_tools.py on every LUN, and its table."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from iraid_dev.places import PYTHON, ROOT

from .cu_output import FAILED, PASSED, SKIPPED
from .results import Lun, Result, Run, differences

TESTS = ("tests/end_to_end/test_stock_tools.py", "tests/end_to_end/test_compare_and_write_race.py")
REFERENCE = "reference"


def _result(case: ElementTree.Element) -> Result:
    seconds = round(float(case.get("time", 0)), 2)
    for kind, verdict in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        found = case.find(kind)
        if found is not None:
            told = (found.get("message") or found.text or "").strip().splitlines()
            return Result(verdict, told[:2], seconds=seconds)
    return Result(PASSED, seconds=seconds)


def read_junit(path: Path, run: Run) -> None:
    """Cases are called check[LUN] or check[LUN-more]; each LUN gets its checks.  A case whose set-up and end both
    failed is there twice: what is worse counts."""
    luns = {lun.name: lun for lun in run.luns}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        found = re.fullmatch(r"test_([^\[]+)\[(reference|level \d+)(?:-(.*))?\]", case.get("name", ""))
        if not found:
            continue
        name = found[1].replace("_", " ") + (f" ({found[3]})" if found[3] else "")
        result = _result(case)
        results = luns[found[2]].results
        if name not in results or results[name].verdict == PASSED or result.verdict == FAILED:
            results[name] = result


def table(run: Run) -> str:
    names = list(dict.fromkeys(name for lun in run.luns for name in lun.results))
    width = max((len(name) for name in names), default=10)
    lines = [" " * width + "".join(f"{lun.name:>12}" for lun in run.luns)]
    for name in names:
        cells = [lun.results[name].verdict if name in lun.results else "-" for lun in run.luns]
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def run(
    given: argparse.Namespace,
    folder: Path,
    commit: str,
    lab_words: Callable[[argparse.Namespace, Path, list[str]], list[str]],
    run_lab: Callable[..., int],
) -> int:
    made = Run(
        time.strftime("%Y-%m-%d %H:%M"),
        commit,
        given.kernel,
        "stock tools",
        [Lun(REFERENCE), *(Lun(f"level {level}") for level in given.levels)],
    )
    junit = folder / "tools.xml"
    selection = ["-k", given.families] if given.families else []
    inside = [
        PYTHON,
        "-B",
        "-m",
        "pytest",
        *(str(ROOT / test) for test in TESTS),
        f"--rootdir={ROOT}",
        "-p",
        "no:cacheprovider",
        f"--junitxml={junit}",
        "-v",
        *selection,
    ]
    environment = {"IRAID_CONFORMANCE_LUNS": ",".join(lun.name.removeprefix("level ") for lun in made.luns)}
    status = run_lab(lab_words(given, folder, inside), environment)
    if not junit.exists():
        print(f"conformance: the lab ended with status {status}, and pytest left no report")
        return 1
    read_junit(junit, made)
    made.ended = status in (0, 1) and all(lun.results for lun in made.ours)
    print("\n" + table(made) + "\n\n" + differences(made))
    print(f"\n{made.date}, commit {made.commit}, lab {made.kernel}")
    if not made.ended:
        print(f"conformance: NOT all checks were run: pytest or the lab ended with status {status}")
    print("conformance: " + ("no check fails that the reference stands" if made.good else "FAILED"))
    if given.json:
        given.json.write_text(json.dumps(asdict(made) | {"ok": made.good}, indent=1) + "\n")
    return 0 if made.good else 1
