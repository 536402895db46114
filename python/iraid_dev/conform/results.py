"""Results of a run: kept as JSON after every suite, compared with the reference, shown as tables.

    {"date", "commit", "kernel", "tool", "ended",
     "luns": [{"name", "size_bytes", "block_bytes", "faults": [...],
               "results": {"SCSI.Read10.Simple": {"verdict", "reasons", "complaints", "seconds"}}}]}

The first LUN is the reference.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .cu_output import FAILED, PASSED, SKIPPED

VERDICTS = (PASSED, FAILED, SKIPPED)

PADDED = "the kernel fills a shorter answer with zeros and reports no underflow; tcmu-runner can't tell it the length"
RESIDUAL = "a buffer that is not as long as the CDB says: a backstore in user space can't report the residual"
# Tests that fail on our LUNs and not on the reference, and why that stays (docs/lab-notes/conformance-2026-11-29.md).
KNOWN = {
    "SCSI.Inquiry.AllocLength": PADDED,
    "SCSI.Inquiry.BlockLimits": PADDED,
    "iSCSI.iSCSIResiduals.Read10Invalid": RESIDUAL,
    "iSCSI.iSCSIResiduals.Read10Residuals": RESIDUAL,
    "iSCSI.iSCSIResiduals.Read12Residuals": RESIDUAL,
    "iSCSI.iSCSIResiduals.Read16Residuals": RESIDUAL,
    "iSCSI.iSCSIResiduals.Write10Residuals": RESIDUAL,  # from libiscsi 1.20 on
    "iSCSI.iSCSIResiduals.Write12Residuals": RESIDUAL,
    "iSCSI.iSCSIResiduals.Write16Residuals": RESIDUAL,
    "iSCSI.iSCSIResiduals.WriteVerify12Residuals": RESIDUAL,
    # Its commands are right, so they are carried out.
    "SCSI.CompareAndWrite.InvalidDataOutSize": "libiscsi 1.20 means to change the command, and changes all but that",
    "SCSI.GetLBAStatus.UnmapSingle": "the tool takes a block for a physical block in its second part",
    "SCSI.WriteSame16.UnmapUnaligned": "the tool sends no block of data where SBC wants one",
}


@dataclass
class Result:
    verdict: str
    reasons: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass
class Lun:
    name: str
    size_bytes: int = 0
    block_bytes: int = 512
    results: dict[str, Result] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)  # of the volume behind it, after the tests

    def count(self, prefix: str, verdict: str) -> int:
        return sum(result.verdict == verdict for name, result in self.results.items() if name.startswith(prefix))


@dataclass
class Run:
    date: str
    commit: str
    kernel: str
    tool: str = ""
    luns: list[Lun] = field(default_factory=list)
    ended: bool = False  # all that was asked for was run

    @property
    def reference(self) -> Lun:
        return self.luns[0]

    @property
    def ours(self) -> list[Lun]:
        return self.luns[1:]

    @property
    def good(self) -> bool:
        return (
            self.ended and bool(self.ours) and not any(lun.faults or unknown(self.reference, lun) for lun in self.ours)
        )

    def write(self, path: Path) -> None:
        """Whole or not at all: the run may be killed at any time."""
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        os.replace(new, path)

    @classmethod
    def read(cls, path: Path) -> Run:
        value = json.loads(path.read_text())
        luns = [
            Lun(**lun | {"results": {name: Result(**one) for name, one in lun["results"].items()}})
            for lun in value.pop("luns")
        ]
        return cls(**value, luns=luns)


def worse(reference: Lun, lun: Lun, verdict: str) -> list[str]:
    """The tests that have this verdict on `lun` and another one, or none, on the reference."""
    return [
        name
        for name, result in lun.results.items()
        if result.verdict == verdict and (name not in reference.results or reference.results[name].verdict != verdict)
    ]


def unknown(reference: Lun, lun: Lun) -> list[str]:
    """The tests that fail on `lun`, do not on the reference, and of which nobody has said why."""
    return [name for name in worse(reference, lun, FAILED) if name not in KNOWN]


def only_complaining(reference: Lun, lun: Lun) -> list[str]:
    """Tests that CUnit let pass, that log a failure on `lun`, and none on the reference."""
    return [
        name
        for name, result in lun.results.items()
        if result.verdict != FAILED
        and result.complaints
        and not (name in reference.results and reference.results[name].complaints)
    ]


def suites(run: Run) -> list[str]:
    names = [name.rpartition(".")[0] for lun in run.luns for name in lun.results]
    return list(dict.fromkeys(names))


def _row(label: str, run: Run, prefix: str) -> str:
    cells = []
    for lun in run.luns:
        counts = [lun.count(prefix, verdict) for verdict in VERDICTS]
        cells.append("{:>6} {:>6} {:>7}".format(*counts))
    return f"{label:<30}" + " |".join(cells)


def table(run: Run) -> str:
    """One line a suite, one a family, one for all; passed, failed, skipped of every LUN."""
    lines = [
        " " * 30 + " |".join(f"{lun.name:^21}" for lun in run.luns),
        f"{'':<30}" + " |".join(f"{'passed':>6} {'failed':>6} {'skipped':>7}" for _ in run.luns),
    ]
    names = suites(run)
    lines += [_row(name, run, name + ".") for name in names]
    lines += [_row(f"family {name}", run, name + ".") for name in dict.fromkeys(name.split(".")[0] for name in names)]
    lines.append(_row("all", run, ""))
    return "\n".join(lines)


def _told(lun: Lun, names: list[str], reference: Lun, *, complaints: bool = False) -> list[str]:
    lines = []
    for name in names:
        result = lun.results[name]
        other = reference.results.get(name)
        why = "; ".join(result.complaints if complaints else result.reasons) or "no reason given"
        if result.verdict == FAILED and name in KNOWN:
            why = f"known, {KNOWN[name]}"
        lines.append(f"  {name} (reference: {other.verdict if other else 'not run'}): {why}")
    return lines


def _of_lun(reference: Lun, lun: Lun) -> list[str]:
    lines = []
    for title, names, complaints in (
        ("fails, and the reference does not", worse(reference, lun, FAILED), False),
        ("skipped, and not on the reference", worse(reference, lun, SKIPPED), False),
        (
            "counts as passed, but logs a failure that the reference does not log",
            only_complaining(reference, lun),
            True,
        ),
    ):
        lines.append(f"{title}: {len(names) or 'none'}")
        lines += _told(lun, names, reference, complaints=complaints)
    return lines


def differences(run: Run) -> str:
    lines: list[str] = []
    told: dict[tuple[str, ...], str] = {}
    for lun in run.ours:
        new = _of_lun(run.reference, lun)
        if tuple(new) in told:
            lines.append(f"{lun.name}: the same as {told[tuple(new)]}")
        else:
            told[tuple(new)] = lun.name
            lines += [line if line.startswith(" ") else f"{lun.name}: {line}" for line in new]
        lines += [f"{lun.name}: after the tests: {fault}" for fault in lun.faults]
    failed = [name for name, result in run.reference.results.items() if result.verdict == FAILED]
    lines.append(f"{run.reference.name}: fails itself: {len(failed) or 'none'}")
    for name in failed:
        here = ", ".join(f"{lun.name} {lun.results[name].verdict}" for lun in run.ours if name in lun.results)
        lines.append(f"  {name} ({here}): {'; '.join(run.reference.results[name].reasons)}")
    return "\n".join(lines)
