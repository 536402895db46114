"""This machine's own kernel, on explicit request.

/etc, /var/lib, /run and HOME's files are the host's here too, but configfs and the kernel's
targets are one for all.  So a machine that has targets of its own is refused, and what the
command writes to the configuration goes to private mounts.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from .run import GUEST, LabError, Options, RunDirectory

MODULES = ("configfs", "target_core_mod", "target_core_user", "iscsi_target_mod", "iscsi_tcp")
CONFIGFS = Path("/sys/kernel/config/target")


def _used_by() -> list[str]:
    """Targets and backstores that this machine has."""
    found = [f"target {path.name}" for path in CONFIGFS.glob("iscsi/iqn*")]
    found += [f"backstore {path.parent.name}/{path.name}" for path in CONFIGFS.glob("core/*_*/*") if path.is_dir()]
    return found


class Host:
    def check(self, options: Options) -> None:
        if os.geteuid() != 0:
            raise LabError("--kernel host needs root; use sudo, or the default --kernel uml")
        for module in MODULES:
            loaded = subprocess.run(["modprobe", "-q", module], check=False).returncode == 0
            if not loaded and not Path("/sys/module", module).is_dir():
                raise LabError(f"this machine's kernel has no module {module}; use --kernel uml")
        if used := _used_by():
            raise LabError(
                f"this machine has targets of its own, which a test could harm: {', '.join(used[:4])}; use --kernel uml"
            )

    def start(self, options: Options, run: RunDirectory, out: int, err: int) -> subprocess.Popen[bytes]:
        run.kernel_log.write_text("see the host's dmesg\n")
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/bash", f"{GUEST}/host"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LAB_STATE": str(run.path)},
        )
