"""User-mode Linux: a kernel that is a process.  Needs no root, no KVM, no image."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from .run import GUEST, LabError, Options, RunDirectory

XSTATE = Path(__file__).with_name("xstate.c")
MEMORY_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    number, unit = text[:-1], text[-1:].upper()
    if unit not in MEMORY_UNITS or not number.isdigit() or int(number) == 0:
        raise LabError(f"'{text}' is not a size; write it as 512M or 4G")
    return int(number) * MEMORY_UNITS[unit]


def _memory_directory(size_bytes: int) -> str:
    """Where the guest's memory lies as a file: /dev/shm where that is large enough."""
    for path in ("/dev/shm", os.environ.get("TMPDIR", "/tmp"), "/var/tmp"):
        try:
            file_system = os.statvfs(path)
        except OSError:
            continue
        free = file_system.f_bavail * file_system.f_frsize
        no_exec = file_system.f_flag & os.ST_NOEXEC
        if free >= size_bytes and not no_exec and os.access(path, os.W_OK):
            return path
    raise LabError(
        f"no directory has {size_bytes >> 20} MiB free for the guest's memory (tried "
        "/dev/shm, TMPDIR, /var/tmp); use a smaller --memory"
    )


def make_image(image: Path, size_bytes: int) -> None:
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(size_bytes)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)


def _lock_image(options: Options) -> None:
    """Makes the image if it is not there; the lock is held until we end."""
    image = options.persist
    assert image is not None
    make_image(image, parse_size(options.persist_size))
    descriptor = os.open(image, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LabError(f"the image {image} is in use by another lab; use another one") from None
    os.set_inheritable(descriptor, False)


def _preload(run: RunDirectory) -> dict[str, str]:
    """What user-mode Linux needs on processors with AMX (xstate.c says why); raises LabError without a compiler."""
    if "amx_tile" not in Path("/proc/cpuinfo").read_text():
        return {}
    library = run.path / "xstate.so"
    try:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(XSTATE)], check=True)
    except (OSError, subprocess.CalledProcessError):
        raise LabError(
            "user-mode Linux needs a library made for it on this processor (AMX), and cc could not make it; "
            "run scripts/deps, or apt-get install gcc libc6-dev"
        ) from None
    return {"LD_PRELOAD": str(library)}


def _nic_words(options: Options) -> list[str]:
    """Raw packets on one end of a virtual cable; checksums and large segments go over it undone (gro), which makes it
    hundreds of times faster than single packets."""
    return [
        f"vec{number}:transport=raw,ifname={nic.far_end},mac={nic.mac},gro=1" for number, nic in enumerate(options.nics)
    ]


class Uml:
    def check(self, options: Options) -> None:
        if shutil.which("linux.uml") is None or not Path("/usr/lib/uml/modules").is_dir():
            raise LabError("user-mode Linux is not installed; run scripts/deps, or apt-get install user-mode-linux")
        parse_size(options.memory)
        if options.persist:
            _lock_image(options)

    def start(self, options: Options, run: RunDirectory, out: int, err: int) -> subprocess.Popen[bytes]:
        memory_bytes = parse_size(options.memory)
        words = [
            "linux.uml",
            f"mem={memory_bytes >> 20}M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            # console 0 is the kernel's, 1 and 2 the command's output and errors
            "con=null",
            "con0=null,fd:1",
            f"con1=null,fd:{out}",
            f"con2=null,fd:{err}",
            f"uml_dir={run.path}/",
            "umid=uml",
            "panic=1",
            f"init={GUEST}/init",
            f"LAB_STATE={run.path}",
            *_nic_words(options),
        ]
        if options.persist:
            words.insert(1, f"ubd0={options.persist.resolve()}")
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(run.path),
            "TMPDIR": _memory_directory(memory_bytes),
        } | _preload(run)
        with run.kernel_log.open("wb") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[out, err],
                env=environment,
                start_new_session=True,
            )
