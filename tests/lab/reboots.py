#!/usr/bin/python3
"""Reboots a gateway with systemd again and again, and nobody gives it a hand; a table of what was seen.

    tests/lab/reboots.py --count 20                 about 1 min each
    tests/lab/reboots.py --count 20 --seconds 400   in slices: the next call goes on where this one ended

Each boot reads what the one before wrote, compares, and writes other data.  Then it shuts down, each time in another way: nothing
under way, a load, one of the services stopped before (runner, LIO, network, D-Bus), with members that answer or not.  Exit status 0:
all reboots that were asked for are there and good; 1: one was not, and its folder is named; 3: the slice is over, call it again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import systems

GO_ON = 3
# How a shutdown begins: arguments of check-volume.
ENDS = [
    (),
    ("tcmu-runner", "silent"),
    ("none", "silent"),
    ("members-network", "answering"),
    ("dbus", "answering"),
    ("rtslib-fb-targetctl", "answering"),
    ("own-initiator", "answering"),
    ("tcmu-runner", "answering"),
    ("rtslib-fb-targetctl", "silent"),
    ("none", "answering"),
]
COLUMNS = [
    ("boot", "boot_seconds"),
    ("LUN restored", "restored_seconds"),
    ("LUN answers", "answered_seconds"),
    ("suspect regions", "suspect_regions"),
    ("stop", "stop_seconds"),
    ("shutdown", "off_seconds"),
]


def commit() -> str:
    done = subprocess.run(
        ["git", "-C", str(systems.ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown commit"


def one(folder: Path, number: int) -> dict[str, object] | None:
    """None: it was not good."""
    state = folder / f"boot{number}"
    image = folder / "disk.img"
    end = ENDS[number % len(ENDS)] if number else ()
    seen = systems.make(image, state) if number == 0 else systems.boot(image, state, "check-volume", number + 1, *end)
    if seen.status != 0 or seen.off_seconds is None:
        print(
            f"reboot {number} was not good (status {seen.status}, "
            f"{'not off' if seen.off_seconds is None else 'off'}); see {state}\n{seen.output}",
            file=sys.stderr,
        )
        return None
    return {
        "number": number,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "end": ", ".join(end) or "quiet",
        "stop_seconds": 0.0,
        "off_seconds": seen.off_seconds,
        **seen.figures,
    }


def table(rows: list[dict[str, object]]) -> str:
    """Markdown; seconds from the start of the kernel, and of the shutdown."""
    reboots = [row for row in rows if row["number"] != 0]
    lines = [
        f"{len(reboots)} reboots, {reboots[0]['date'] if reboots else '-'} UTC, commit "
        f"{', '.join(dict.fromkeys(str(row['commit']) for row in rows))}; seconds from the kernel's start; how long the first service took "
        "to stop; from the order to shut down",
        "",
        "| reboot | " + " | ".join(title for title, _ in COLUMNS) + " | stopped first, members | data |",
        "|---:|" + "---:|" * len(COLUMNS) + "---|---|",
    ]
    for row in reboots:
        cells = [f"{row[key]:.1f}" if key != "suspect_regions" else str(row[key]) for _, key in COLUMNS]
        lines.append(f"| {row['number']} | " + " | ".join(cells) + f" | {row['end']} | right |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="reboots (default 20)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more after so long")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("/var/tmp/iraid-reboots"),
        help="image, logs and table (default /var/tmp/iraid-reboots); remove it to begin anew",
    )
    given = parser.parse_args()
    if given.count < 1:
        parser.error(f"--count {given.count} is not a number of reboots")
    if why := systems.missing():
        parser.error(why)
    begin = time.monotonic()
    given.folder.mkdir(parents=True, exist_ok=True)
    record = given.folder / "boots.jsonl"
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    while len(rows) < given.count + 1:  # the first makes the gateway
        if time.monotonic() - begin > given.seconds:
            print(f"{max(0, len(rows) - 1)} of {given.count} reboots so far; call it again")
            return GO_ON
        row = one(given.folder, len(rows))
        if row is None:
            return 1
        rows.append(row)
        with record.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
    (given.folder / "table.md").write_text(table(rows))
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
