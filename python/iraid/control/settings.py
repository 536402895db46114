"""The gateway's files, as the handler's parser reads them.  The one parser is in C; it is asked through iraid-engine, which
needs no handler that runs, and prints no secrets."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .errors import IraidError

ENGINE = "iraid-engine"
SECONDS_MAX = 30
SECTIONS = ("volumes", "spares", "notify", "exporter")


def engine_program() -> Path:
    """IRAID_ENGINE; in a build tree that of IRAID_BUILD_DIR or build/; else where it is installed."""
    if named := os.environ.get("IRAID_ENGINE"):
        return Path(named)
    here = Path(__file__).resolve()
    places = []
    if (here.parents[3] / "handler" / "adapters").is_dir():  # a source tree
        build = Path(os.environ.get("IRAID_BUILD_DIR") or here.parents[3] / "build")
        places.append(build / "handler" / "adapters" / ENGINE)
    prefix = here.parents[4]  # PREFIX/share/iraid/iraid/control/settings.py
    places += [folder / "iraid" / ENGINE for folder in (prefix / "libexec", prefix / "lib", Path("/usr/libexec"))]
    for place in places:
        if place.is_file():
            return place
    looked = ", ".join(map(str, places))
    raise IraidError(
        f"{ENGINE} was not found in {looked}",
        "install iraid again, or name the program in IRAID_ENGINE",
        kind="unavailable",
    )


class Gateway(dict[str, Any]):
    """What gateway() gives: a section with a fault is not handed out, the others are, so that a typo in one of them does
    not end what reads another."""

    def __getitem__(self, name: str) -> Any:
        if name in SECTIONS:
            # What is in no known section may have been meant for this one.
            faults = [
                fault
                for fault in self.get("faults", ())
                if fault["section"] == name or fault["section"] not in SECTIONS
            ]
            if faults:
                raise fault_error(faults)
        return super().__getitem__(name)


def gateway(tolerant: bool = False) -> dict[str, Any]:
    """gateway.conf with every default filled in:

        {"volumes": {"give_up_seconds": 5, ...}, "spares": [{"device", "size_bytes", "block_bytes"}],
         "notify": {"mail": [], "command": "", "severity": "warning"},
         "exporter": {"address": "127.0.0.1", "port": 9723}, "file": str | None, "faults": [...],
         "keys": [{"section", "key", "value", "source", "line", "applies"}]}

    To take a section that has a fault raises IraidError.  tolerant: it has its defaults, and "faults" has what is wrong.
    """
    settings: dict[str, Any] = _ask("--print-config", "gateway")
    return settings if tolerant else Gateway(settings)


def volume(name: str) -> dict[str, Any]:
    """What holds for a volume when it is started, and from where: {"name", "file", "keys", "values"}."""
    shown: dict[str, Any] = _ask("--print-config", "volume", name)
    if shown.get("faults"):
        raise fault_error(shown["faults"])
    return shown


def check(name: str | None = None) -> dict[str, Any]:
    """{"files": [...], "faults": [{"file", "line", "section", "key", "what", "remedy"}]}"""
    checked: dict[str, Any] = _ask("--check-config", "--json", *([] if name is None else [name]))
    return checked


def keys() -> list[dict[str, Any]]:
    """Every key of every file."""
    known: list[dict[str, Any]] = _ask("--print-config-keys")
    return known


def fault_line(fault: dict[str, Any]) -> str:
    """FILE:LINE: key: what; remedy"""
    place = fault["file"] + (f":{fault['line']}" if fault["line"] else "")
    key = f"{fault['key']}: " if fault["key"] else ""
    return f"{place}: {key}{fault['what']}; {fault['remedy']}"


def fault_error(faults: list[dict[str, Any]]) -> IraidError:
    more = f" (and {len(faults) - 1} more: iraid config check)" if len(faults) > 1 else ""
    what = fault_line(faults[0] | {"remedy": ""}).removesuffix("; ")
    missing = "there is no volume" in faults[0]["what"]
    return IraidError(what + more, faults[0]["remedy"], kind="not_found" if missing else "invalid")


def _ask(*arguments: str) -> Any:
    program = engine_program()
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS_MAX,
            check=False,
        )
    except OSError as error:
        raise IraidError(
            f"{program} can't be run: {error.strerror}", "install iraid again", kind="unavailable"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise IraidError(
            f"{program} did not answer within {SECONDS_MAX} s",
            "see whether the disk of /etc/iraid answers: journalctl -b -k -p err",
        ) from error
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        said = done.stderr.strip().splitlines()
        raise IraidError(
            f"{program} {' '.join(arguments)} failed: {said[-1] if said else f'status {done.returncode}'}",
            "its version may differ from that of the iraid command: install iraid again",
        ) from error
