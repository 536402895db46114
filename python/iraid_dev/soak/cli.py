"""scripts/soak: command line, the lab around the stage, the closing table."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from iraid_dev.places import SCRIPTS, commit, module_words

from .driver import LOGS, MEMBERS
from .report import ReportError, Run, read, table, write

SETTING_UP_SECONDS_MAX = 1500  # and ending; the lab's own limit lies behind it
RESULT = "soak.json"

EPILOG = """\
exit status: 0 if no byte was wrong and no I/O failed, 1 otherwise.
examples:
  scripts/soak --minutes 30
  scripts/soak --minutes 60 --resume /var/tmp/soak.json
  scripts/soak --minutes 5 --native --seed 7
  scripts/soak --minutes 30 --level 6 --log always
  scripts/soak --minutes 60 --hostile
"""


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/soak",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Causes random faults under a load that verifies every byte: members are killed, "
        "stopped, cut off, slowed, wiped and replaced, two are away for a while, the gateway is "
        "killed, scrubs and flushes run. At the end it prints the faults survived, the bytes "
        "verified and the longest stall. At the first wrong byte it stops and keeps all logs.",
    )
    add = parser.add_argument
    add("--minutes", type=float, required=True, metavar="N", help="duration; the fault in progress is ended")
    add("--seed", type=int, metavar="S", help="seed of the random choices (default: a new one each time)")
    add("--level", type=int, choices=tuple(MEMBERS), default=5, help="level of the volume (default 5)")
    add("--log", choices=LOGS, default=LOGS[0], help=f"write log of the volume, levels 5 and 6 (default {LOGS[0]})")
    add("--resume", type=Path, metavar="FILE", help="add this run to those in FILE, which is made if absent")
    add(
        "--hostile",
        action="store_true",
        help="in the lab: also aborts, resets of the LUN, storms of logins, commands of nonsense, targets that lie; "
        "the gateway is not killed, and its memory is watched",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--lab", action="store_true", help="in a kernel with LIO, by scripts/lab (default)")
    where.add_argument(
        "--native",
        action="store_true",
        help="with nbdkit on this machine: faster, but without LIO and without link faults",
    )
    add("--kernel", choices=("uml", "qemu", "host"), default="uml", help="kernel of the lab (default uml)")
    add("--state", type=Path, metavar="DIR", help="keep logs in DIR, also those of a good run")
    add("--no-build", action="store_true", help="do not build")
    given = parser.parse_args(words)
    if given.minutes <= 0:
        parser.error(f"--minutes {given.minutes:g} is no time; give a number above 0")
    if given.log != LOGS[0] and given.level not in (5, 6):
        parser.error(f"--log {given.log}: level {given.level} has no write log; leave it out, or take level 5 or 6")
    if given.resume and not given.resume.resolve().parent.is_dir():
        parser.error(f"--resume {given.resume}: its directory is not there; make it first")
    if given.native and given.hostile:
        parser.error("--hostile needs LIO, which --native is without; leave one of them out")
    if given.native and os.geteuid() != 0:
        parser.error("--native starts targets, which only root may; run it as root, or with --lab")
    return given


def lab_words(given: argparse.Namespace, folder: Path, stage: list[str]) -> list[str]:
    timeout = int(given.minutes * 60) + SETTING_UP_SECONDS_MAX
    state = ["--state", str(given.state)] if given.state else []
    return [
        str(SCRIPTS / "lab"),
        "--kernel",
        given.kernel,
        "--timeout",
        str(timeout),
        "--share",
        str(folder),
        *state,
        "--",
        *module_words("iraid_dev.soak.lab"),
        *stage,
    ]


def native_words(given: argparse.Namespace, folder: Path, stage: list[str]) -> list[str]:
    logs = given.state or folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    return [*module_words("iraid_dev.soak.native"), *stage, str(logs)]


def run_stage(words: list[str]) -> int:
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the stage got it as well, and ends what it started
            print("soak: waiting for everything to end", flush=True)


def outcome(folder: Path, run: Run, status: int) -> Run:
    """What the stage found out; the run itself without anything if it did not come so far."""
    result = folder / RESULT
    if result.exists():
        run = read(result)[-1]
    if status != 0 and not run.errors:
        run.errors.append(f"the run ended with status {status} and did not say why")
    return run


def main(words: list[str]) -> int:
    given = parse(words)
    try:
        earlier = read(given.resume) if given.resume and given.resume.exists() else []
    except ReportError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    if not given.no_build and subprocess.run([SCRIPTS / "build"], check=False).returncode != 0:
        print("soak: the build failed, nothing was run", file=sys.stderr)
        return 1
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    where = "native" if given.native else "lab"
    run = Run(
        time.strftime("%Y-%m-%d %H:%M"), commit(), seed, where, level=given.level, log=given.log, hostile=given.hostile
    )
    folder = Path(tempfile.mkdtemp(prefix="iraid-soak-"))
    kind = "hostile" if run.hostile else "peaceful"
    stage = [f"{given.minutes:g}", str(seed), run.commit, run.date, str(run.level), run.log, kind, str(folder / RESULT)]
    status = run_stage((native_words if given.native else lab_words)(given, folder, stage))
    run = outcome(folder, run, status)
    runs = [*earlier, run]
    if given.resume:
        write(given.resume, runs)
    print(f"\n{table(runs)}")
    if run.good:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    else:
        print(
            f"soak: what is known of this run is in {folder}"
            + ("" if given.native else ", the lab's logs are where it said")
        )
    return 0 if run.good else 1
