"""Several machines, each a user-mode Linux, and beside them the command, in namespaces of the run's own: what is started
in there ends with the first of its processes, which ends with the lab; its networks go with it.

    python3 several.py DIR     that first process
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iraid_dev.lab import network
from iraid_dev.lab.machines import Machines, collect_state, describe, description, make_disks, remove_disks
from iraid_dev.lab.run import LabError, Options, RunDirectory
from iraid_dev.lab.uml import Uml

EXIT_TIME = 124
COLLECT_SECONDS = 50  # kept of the time limit, to tell what the machines can tell


class Several:
    def check(self, options: Options) -> None:
        if os.geteuid() != 0:
            raise LabError("--machines needs root, for network namespaces; use sudo, or one machine")
        Uml().check(options)
        for program in ("unshare", "ip"):
            if shutil.which(program, path=_PATH) is None:
                raise LabError(f"--machines needs the program {program}; run scripts/deps")

    def start(self, options: Options, run: RunDirectory, out: int, err: int) -> subprocess.Popen[bytes]:
        describe(options, run.path)
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return subprocess.Popen(
            ["unshare", *namespaces, sys.executable, __file__, str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name in ("TMPDIR", "HOME")} | {"PATH": _PATH},
        )


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _bring_up(lab: Path) -> Machines:
    machines = Machines(lab)
    network.make(list(machines))
    make_disks(lab)
    for machine in machines.values():
        machine.begin_boot()
    for machine in machines.values():
        machine.wait_up()
    return machines


def _run_command(lab: Path, seconds: float) -> int:
    process = subprocess.Popen(["/bin/bash", str(lab / "command")], start_new_session=True)
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        (lab / "time-over").touch()
        process.kill()
        return EXIT_TIME
    return status if status >= 0 else 128 - status


def main(lab: Path) -> None:
    begin = time.monotonic()
    options = description(lab)
    try:
        machines = _bring_up(lab)
    except LabError as error:
        (lab / "boot-error").write_text(f"{error}\n")
        return
    left = options.timeout_seconds - COLLECT_SECONDS - (time.monotonic() - begin)
    keep = options.keep or options.state is not None
    status = _run_command(lab, max(1.0, left))
    if status != 0 or keep:
        collect_state(machines)
    if not keep:
        remove_disks(lab)
    (lab / "exit-status.new").write_text(f"{status}\n")
    (lab / "exit-status.new").rename(lab / "exit-status")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
