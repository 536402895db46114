"""QEMU with Debian's own kernel, on the host's file system: virtme-ng starts it.

Nothing of it is installed before it is asked for: the packages by apt-get, virtme-ng into a
virtual environment of the lab's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .run import GUEST, LabError, Options, RunDirectory, cache_directory
from .supervise import kill_session

PACKAGES = ("linux-image-amd64", "qemu-system-x86", "busybox-static", "python3-venv")
PROBE_SECONDS = 25
VIRTME_NG = "virtme-ng==1.42"


def _say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def debian_kernels() -> list[Path]:
    """Debian's kernels with modules, newest last."""
    found = [
        path
        for path in Path("/boot").glob("vmlinuz-*-amd64")
        if Path("/lib/modules", path.name.removeprefix("vmlinuz-")).is_dir()
    ]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def _install_packages() -> None:
    if debian_kernels() and shutil.which("qemu-system-x86_64") and shutil.which("busybox"):
        return
    if os.geteuid() != 0:
        raise LabError(
            f"QEMU needs the packages {' '.join(PACKAGES)}; install them as root: "
            f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
        )
    _say(f"installing {' '.join(PACKAGES)}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", "-qq", *words],
            env=environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise LabError(f"apt-get {words[0]} failed: {done.stdout[-400:]}")


def _install_virtme() -> Path:
    venv = cache_directory() / "virtme-ng"
    if not (venv / "bin/vng").exists():
        _say(f"installing {VIRTME_NG} into {venv}")
        for words in (
            ["/usr/bin/python3", "-m", "venv", str(venv)],
            [str(venv / "bin/pip"), "install", "-q", VIRTME_NG],
        ):
            done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                raise LabError(f"'{' '.join(words)}' failed: {done.stdout[-400:]}")
    return venv


class Qemu:
    def check(self, options: Options) -> None:
        _install_packages()
        self._venv = _install_virtme()
        self._kernel = debian_kernels()[-1]
        self._kvm = self._kvm_boots()
        if not self._kvm:
            _say("no KVM that boots here: software emulation, several times slower")

    def _kvm_boots(self) -> bool:
        """/dev/kvm may be there and yet no kernel get through its boot; so one tries."""
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return False
        answer = cache_directory() / f"kvm-{self._kernel.name}-{os.uname().release}"
        if answer.exists():
            return answer.read_text() == "yes"
        _say(f"probing KVM, {PROBE_SECONDS} s at most")
        process = subprocess.Popen(
            [*self._vng(kvm=True), "--memory", "512M", "--", "echo", "kvm", "boots"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=PROBE_SECONDS)[0]
        except subprocess.TimeoutExpired:
            output = b""
        kill_session(process.pid)
        boots = b"kvm boots" in output
        answer.write_text("yes" if boots else "no")
        return boots

    def _vng(self, kvm: bool) -> list[str]:
        words = [str(self._venv / "bin/vng"), "--run", str(self._kernel), "--force-9p", "--user", "root"]
        return words if kvm else [*words, "--disable-kvm"]

    def _environment(self) -> dict[str, str]:
        return {"PATH": f"{self._venv}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.environ.get("HOME", "/root")}

    def start(self, options: Options, run: RunDirectory, out: int, err: int) -> subprocess.Popen[bytes]:
        words = [
            *self._vng(self._kvm),
            "--cpus",
            str(options.cpus),
            "--memory",
            options.memory,
            f"--rwdir={run.path}",
            *(f"--rwdir={path}" for path in options.shares),
            "--append",
            f"LAB_STATE={run.path}",
            "--",
            f"{GUEST}/qemu-command",
        ]
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=self._environment(), start_new_session=True
        )
