"""tcmu-runner with ThreadSanitizer in it: a volume's life shows no race in which the handler's code has a part.

    scripts/build --thread-sanitize
    scripts/lab --kernel qemu tests/end_to_end/test_thread_sanitizer.py -m long

User-mode Linux gives a program too little address space for it.  tcmu-runner and its libraries are not instrumented: of
them it sees locks, threads and copies only, so a report in which no frame is ours says nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from iraid_dev.places import ROOT
from iraid_dev.stack.gateway import Gateway, Volume, attempt_iraid, iraid
from iraid_dev.stack.load import Fio
from iraid_dev.stack.runner import Runner

pytestmark = [pytest.mark.long, pytest.mark.no_sanitizer, pytest.mark.timeout(1500)]

BUILD = Path(os.environ.get("IRAID_TSAN_DIR", ROOT / "build-tsan"))
SUPPRESSIONS = ROOT / "tests/tsan/tcmu-runner.suppressions"
OURS = re.compile(r"/handler/|handler_iraid\.so|iraid-cdb-length\.so")
KIB, MIB = 1 << 10, 1 << 20


def library() -> Path:
    """gcc's ThreadSanitizer; skips where it is of no use."""
    if not list(BUILD.rglob("handler_iraid.so")):
        pytest.skip(f"no build with ThreadSanitizer in {BUILD}: run scripts/build --thread-sanitize")
    named = subprocess.run(["gcc", "-print-file-name=libtsan.so"], check=True, capture_output=True, text=True).stdout
    path = Path(os.path.realpath(named.strip()))
    tried = subprocess.run(
        ["cat", "/dev/null"], env=os.environ | {"LD_PRELOAD": str(path)}, capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        said = tried.stderr.strip()[:200]
        pytest.skip(f"no room for ThreadSanitizer in this kernel (scripts/lab --kernel qemu has it): {said}")
    return path


class SanitizedRunner(Runner):
    """Writes a file for each process that ThreadSanitizer runs in, whose first line says so."""

    def __init__(self, log_folder: Path, tsan: Path):
        super().__init__(log_folder, next(BUILD.rglob("handler_iraid.so")).parent)
        self.tsan = tsan
        self.reports = log_folder / "tsan"

    def _environment(self) -> dict[str, str]:  # type: ignore[override]
        environment = super()._environment()
        options = {
            "log_path": self.reports,
            "suppressions": SUPPRESSIONS,
            "verbosity": 1,
            "exitcode": 0,  # the test reads the reports
            "second_deadlock_stack": 1,
            "history_size": 5,
        }
        (ppoll,) = BUILD.rglob("libtsan_ppoll.so")
        return environment | {
            "LD_PRELOAD": f"{ppoll} {self.tsan} {environment['LD_PRELOAD']}",
            "TSAN_OPTIONS": " ".join(f"{name}={value}" for name, value in options.items()),
        }


@contextlib.contextmanager
def sanitized_gateway(log_folder: Path) -> Iterator[Gateway]:
    tsan = library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IRAID_BUILD_DIR", str(BUILD))
        runner = SanitizedRunner(log_folder, tsan)
        runner.start()
        gateway = Gateway(runner)
        try:
            yield gateway
        finally:
            gateway.remove(list(gateway.volumes))
            runner.stop()


def reports_of_ours(texts: list[str]) -> list[str]:
    reports = [part for text in texts for part in re.split(r"^={18}$", text, flags=re.MULTILINE)]
    return [part for part in reports if "WARNING: ThreadSanitizer" in part and OURS.search(part)]


def load(volume: Volume, size: str) -> Fio:
    disk = volume.disk or volume.login()
    return Fio(disk, rw="randrw", bs="16k", size=size, iodepth=8)


def ask_all() -> None:
    """What an administrator and a monitor look at."""
    for words in (["status"], ["status", "--json"], ["events"], ["doctor"]):
        attempt_iraid(*words)  # doctor's status is what it found


def lives(gateway: Gateway, targets: object, others: object) -> None:
    volume = gateway.create(5, targets.members())
    running = load(volume, "2M")
    targets.kill(1)
    ask_all()
    second = gateway.create(1, others.members())
    beside = load(second, "1M")
    running.result(seconds=600)
    beside.result(seconds=600)
    volume.wait_until("degraded")
    targets.restart(1)
    load(volume, "1M").result(seconds=600)
    volume.wait_until("active", seconds=120)
    ask_all()
    second.logout()
    second.unexport()
    iraid("stop", second.name)
    ask_all()
    iraid("start", second.name)
    iraid("fail", volume.name, "2")
    iraid("rebuild", volume.name, "2")
    volume.wait_until("active", seconds=120)


def test_no_race_has_our_code_in_it(farm, log_folder: Path, capsys) -> None:
    with sanitized_gateway(log_folder) as gateway:
        process = gateway.runner.process.pid
        lives(gateway, farm(4, size_bytes=64 * MIB), farm(2, size_bytes=64 * MIB))
    texts = {path.name: path.read_text(errors="replace") for path in log_folder.glob("tsan.*")}
    assert "Running under ThreadSanitizer" in texts.get(f"tsan.{process}", ""), f"it did not run: {sorted(texts)}"
    with capsys.disabled():
        counts = {name: text.count("WARNING: ThreadSanitizer") for name, text in texts.items()}
        print(f"\n    reports, others' among them: {counts}")
    ours = reports_of_ours(list(texts.values()))
    assert not ours, f"{len(ours)} reports with our code:\n" + "\n".join(ours[:10])
