"""Tables and plots of the papers' experiments, from the rows that papers.py wrote; the papers' curves beside ours.

    tests/bench/papers.py --report FILE... --out DIR

Later files win where the same cell was measured twice.  matplotlib is needed here only, on the host.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from iraid_dev.bench.core import row as rows_module
from iraid_dev.bench.core.row import Row

from . import model

OPERATION_NAMES = {
    "write": "sequential write",
    "read": "sequential read",
    "randwrite": "random write",
    "randread": "random read",
}
Key = tuple[Any, ...]


def system_name(row: Row) -> str:
    if row.system == "plain":
        return "TCP stream" if row.conditions.get("stream") == "tcp" else "plain"
    if row.system == "md":
        return f"md {row.level} on {row.members}"
    kind = {0: "S-iRAID", 5: "P-iRAID"}.get(row.level if row.level is not None else -1, f"level {row.level}")
    return f"{kind} {row.members}"


def of_experiment(rows: Iterable[Row], *names: str) -> list[Row]:
    return [row for row in rows if row.conditions.get("experiment") in names]


def latest(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, Row]:
    return {key(row): row for row in rows}


def markdown(heads: list[str], lines: Iterable[list[str]]) -> str:
    table = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(table + ["| " + " | ".join(line) + " |" for line in lines])


def pivot(
    rows: list[Row],
    across: Callable[[Row], Any],
    heads: Callable[[Any], str],
    key: Callable[[Row], Key],
    names: list[str],
    cell: Callable[[Row], str] = lambda row: f"{row.mb_per_s:.0f}",
) -> str:
    """One line for each key, one column for each value of `across`, MB/s in the cells."""
    columns = list(dict.fromkeys(across(row) for row in rows))
    found = latest(rows, lambda row: (key(row), across(row)))
    lines = []
    for each in dict.fromkeys(key(row) for row in rows):
        values = [found.get((each, column)) for column in columns]
        lines.append([str(word) for word in each] + [cell(value) if value else "-" for value in values])
    return markdown(names + [heads(column) for column in columns], lines)


# --- tables ---


def gains(rows: list[Row]) -> list[dict[str, Any]]:
    """Each volume against the plain target on links of the same speed, operation by operation, and the paper's mean; only
    where all four were measured."""
    by_system: dict[Key, dict[str, Row]] = {}
    for row in rows:
        by_system.setdefault((system_name(row), row.conditions["link_mbit"]), {})[row.pattern] = row
    result = []
    for (name, rate), cells in by_system.items():
        plain = by_system.get(("plain", rate), {})
        if name == "plain" or any(each not in side for side in (cells, plain) for each in model.OPERATIONS):
            continue
        ours = {each: cells[each].mb_per_s for each in model.OPERATIONS}
        base = {each: plain[each].mb_per_s for each in model.OPERATIONS}
        result.append(
            {
                "system": name,
                "link_mbit": rate,
                **{each: ours[each] / base[each] for each in model.OPERATIONS},
                "mean": model.gain(ours, base),
                "host_bound": any(row.conditions.get("host_bound") for row in cells.values()),
            }
        )
    return result


def _targets_table(rows: list[Row]) -> str:
    rows = [row for row in rows if not row.conditions.get("unshaped")]

    def cell(row: Row) -> str:
        used = row.conditions.get("measured", {}).get("utilisation")
        text = f"{row.mb_per_s:.1f}" + (f" ({100 * used:.0f} %)" if used is not None else "")
        return text + (" host-bound" if row.conditions.get("host_bound") else "")

    text = pivot(
        rows,
        lambda row: row.pattern,
        OPERATION_NAMES.__getitem__,
        lambda row: (f"{row.conditions['link_mbit']:g}", system_name(row)),
        ["Mbit/s a link", "system"],
        cell,
    )
    lines = [
        [
            f"{each['link_mbit']:g}",
            each["system"],
            *(f"{each[name]:.2f}" for name in model.OPERATIONS),
            f"{each['mean']:.2f}" + (" host-bound" if each["host_bound"] else ""),
        ]
        for each in gains(rows)
    ]
    heads = [
        "Mbit/s a link",
        "against one target",
        *(OPERATION_NAMES[name] for name in model.OPERATIONS),
        "mean of four",
    ]
    return text + "\n\n" + markdown(heads, lines)


def _by_level(row: Row) -> tuple[int, str]:
    """Runs of single levels come in any order; of the same cell the later one stays behind (sorting is stable)."""
    return row.level or 0, row.system


def _cern_table(rows: list[Row]) -> str:
    rows = sorted(rows, key=_by_level)

    def cell(row: Row) -> str:
        load = row.conditions.get("measured", {}).get("cpu_percent")
        return f"{row.mb_per_s:.1f}" + (f" ({load:.0f} %, {row.cpu_s_per_gib:.1f})" if load is not None else "")

    text = pivot(
        [row for row in rows if row.conditions["job"] in model.CERN_JOBS],
        lambda row: row.conditions["job"],
        str,
        lambda row: (system_name(row),),
        ["MB/s (processor, s/GiB)"],
        cell,
    )
    bonnie = [row for row in rows if row.conditions["job"] not in model.CERN_JOBS]
    if bonnie:
        text += "\n\n" + pivot(
            bonnie,
            lambda row: row.conditions["job"],
            str,
            lambda row: (system_name(row),),
            ["on ext4"],
            lambda row: f"{row.mb_per_s:.1f}",
        )
    lines = [
        [name, str(level), *(f"{jobs[job]:.2f}" if job in jobs else "-" for job in model.CERN_JOBS)]
        for name, shares in cern_shares(rows).items()
        for level, jobs in shares.items()
    ]
    return text + "\n\n" + markdown(["share of the own level 0", "level", *model.CERN_JOBS], lines)


def cern_shares(rows: list[Row]) -> dict[str, dict[int, dict[str, float]]]:
    """What each level has of the same system's level 0, CERN's own on six disks beside it."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for row in sorted(rows, key=_by_level):
        if row.level is not None and row.conditions["job"] in model.CERN_JOBS:
            found.setdefault(row.system, {}).setdefault(row.level, {})[row.conditions["job"]] = row.mb_per_s
    return {name: model.shares_of_level_0(levels) for name, levels in found.items()} | {
        "CERN": model.shares_of_level_0(model.CERN_MB)
    }


def _measured(key: str) -> Callable[[Row], str]:
    return lambda row: f"{row.conditions.get('measured', {}).get(key, '-')}"


def _distance_table(rows: list[Row]) -> str:
    def cell(row: Row) -> str:
        return f"{row.mb_per_s:.0f} (p50 {row.p50_ms:.0f} ms, RTT as TCP saw it {_measured('rtt')(row)})"

    return pivot(
        rows,
        lambda row: row.conditions["rtt_ms"],
        lambda rtt: f"RTT {rtt:g} ms",
        lambda row: (
            system_name(row),
            OPERATION_NAMES[row.pattern],
            row.conditions.get("cc", "-"),
            row.block_bytes // 1024,
            row.depth,
        ),
        ["system", "operation", "TCP", "KiB", "depth"],
        cell,
    )


TABLES: dict[str, tuple[tuple[str, ...], Callable[[list[Row]], str]]] = {
    "Distance": (("distance",), _distance_table),
    "Commands in flight, RTT 32 ms": (
        ("distance-depth",),
        lambda rows: pivot(
            rows,
            lambda row: row.depth,
            lambda depth: f"depth {depth}",
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern], row.block_bytes // 1024),
            ["system", "operation", "KiB"],
        ),
    ),
    "Parameters of the targets, RTT 32 ms": (
        ("distance-parameters",),
        lambda rows: pivot(
            rows,
            lambda row: (row.depth, row.conditions["parameters"]),
            lambda key: f"{key[1]}, depth {key[0]}",
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern]),
            ["system", "operation"],
        ),
    ),
    "Congestion control, RTT 32 ms": (
        ("distance-congestion",),
        lambda rows: pivot(
            rows,
            lambda row: row.conditions["cc"],
            str,
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern], f"{row.conditions['link_mbit']:g}"),
            ["system", "operation", "Mbit/s a link"],
            lambda row: f"{row.mb_per_s:.0f} (cwnd {_measured('cwnd')(row)})",
        ),
    ),
    "Size of a request, 20 Mbit/s a link": (
        ("request-size",),
        lambda rows: pivot(
            rows,
            lambda row: row.block_bytes // 1024,
            lambda kib: f"{kib} KiB",
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern]),
            ["system", "operation (how busy the machine was)"],
            lambda row: f"{row.mb_per_s:.1f} ({_measured('busy_percent')(row)} %)",
        ),
    ),
    "Number of targets and speed of links (share of the links in use)": (("targets",), _targets_table),
    "Reads made from the other members (hedged), 20 Mbit/s": (
        ("hedging",),
        lambda rows: pivot(
            rows,
            lambda row: row.depth,
            lambda depth: f"depth {depth}",
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern], row.conditions["hedge_ms"]),
            ["system", "operation", "hedge_milliseconds"],
            lambda row: (
                f"{row.mb_per_s:.1f} ({row.conditions['measured'].get('reads_hedged', 0)} hedged of {row.iops:.0f} a second)"
            ),
        ),
    ),
    "A plain TCP stream beside, RTT 8 ms": (
        ("raw-tcp",),
        lambda rows: pivot(
            rows,
            lambda row: row.conditions.get("segment_bytes", 0) // 1024,
            lambda kib: f"{kib} KiB segments" if kib else "TCP",
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern], row.conditions["mtu"]),
            ["system", "operation", "MTU"],
        ),
    ),
    "CERN's jobs, 40 Mbit/s a link": (("cern",), _cern_table),
    "Size of files on ext4, 100 Mbit/s a link": (
        ("file-size",),
        lambda rows: pivot(
            rows,
            lambda row: row.conditions["file_bytes"] >> 20,
            lambda mib: f"{mib} MiB",
            lambda row: (system_name(row), row.pattern),
            ["system", "operation"],
            lambda row: f"{row.mb_per_s:.1f}",
        ),
    ),
    "Latency, one command in flight: p50 (p99), ms": (
        ("latency",),
        lambda rows: pivot(
            rows,
            lambda row: row.block_bytes // 1024,
            lambda kib: f"{kib} KiB",
            lambda row: (system_name(row), OPERATION_NAMES[row.pattern], f"{row.conditions['rtt_ms']:g}"),
            ["system", "operation", "RTT, ms"],
            lambda row: f"{row.p50_ms:.1f} ({row.p99_ms:.1f})",
        ),
    ),
    "Pathologies, 100 Mbit/s": (
        ("pathologies",),
        lambda rows: pivot(
            rows,
            lambda row: row.conditions["pathology"],
            str,
            lambda row: (
                system_name(row),
                OPERATION_NAMES[row.pattern] + (", verified" if row.conditions.get("verified") else ""),
            ),
            ["system", "operation"],
            lambda row: f"{row.mb_per_s:.1f}",
        ),
    ),
}


def tables(rows: list[Row]) -> str:
    parts = []
    for title, (names, make) in TABLES.items():
        found = of_experiment(rows, *names)
        if found:
            unit = "" if title.endswith(", ms") else "MB/s.\n\n"
            parts.append(f"## {title}\n\n{unit}{make(found)}")
    return "\n\n".join(parts) + "\n"


# --- plots ---


def plots(rows: list[Row], folder: Path) -> list[Path]:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("papers: plots need matplotlib: apt-get install python3-matplotlib") from None
    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "papers",
            "figure.figsize": (7, 4.5),
            "axes.grid": True,
            "grid.alpha": 0.3,
            "lines.markersize": 4,
        }
    )
    made = []
    for name, (experiment, draw) in PLOTS.items():
        found = of_experiment(rows, experiment)
        if not found:
            continue
        figure, axes = pyplot.subplots()
        draw(axes, found)
        axes.set_ylabel(axes.get_ylabel() or "MB/s")
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=7)
        figure.tight_layout()
        made.append(folder / f"papers-{name}.svg")
        figure.savefig(made[-1], metadata={"Date": None})
        pyplot.close(figure)
    return made


def _lines(axes: Any, rows: list[Row], label: Callable[[Row], str], x: Callable[[Row], float]) -> None:
    for name in dict.fromkeys(label(row) for row in rows):
        points = sorted(latest((row for row in rows if label(row) == name), lambda row: (x(row),)).items())
        axes.plot([key[0] for key, _ in points], [row.mb_per_s for _, row in points], marker="o", label=name)


def _draw_distance(axes: Any, rows: list[Row]) -> None:
    rows = [row for row in rows if row.pattern in ("read", "write")]
    _lines(
        axes,
        rows,
        lambda row: f"{system_name(row)}, {OPERATION_NAMES[row.pattern]}, {row.conditions.get('cc', '-')}",
        lambda row: row.conditions["rtt_ms"],
    )
    rtts = sorted(model.LAYERS_TUNED_MB)
    axes.plot(
        rtts, [model.LAYERS_TUNED_MB[rtt] for rtt in rtts], "k--s", label="paper: one target, tuned, 10 MB at a time"
    )
    axes.plot(
        rtts,
        [model.model_mb_per_s(model.LAYERS_BLOCK_BYTES, 1, rtt, 1000) for rtt in rtts],
        "k:",
        label="paper's model, 10 MB at a time",
    )
    axes.set_xlabel("RTT, ms")
    axes.set_title("Sequential throughput against distance")


def _draw_depth(axes: Any, rows: list[Row]) -> None:
    _lines(
        axes,
        rows,
        lambda row: f"{system_name(row)}, {OPERATION_NAMES[row.pattern]}, {row.block_bytes // 1024} KiB",
        lambda row: row.depth,
    )
    depths = sorted({row.depth for row in rows})
    block = rows[0].block_bytes
    axes.plot(
        depths,
        [model.model_mb_per_s(block, depth, 32, 1000) for depth in depths],
        "k:",
        label=f"model of one link: depth x {block // 1024} KiB / (RTT + block / bandwidth)",
    )
    axes.set_xscale("log", base=2)
    axes.set_xlabel("commands in flight")
    axes.set_title("Depth at RTT 32 ms, 1 Gbit/s a link")


def _draw_request_size(axes: Any, rows: list[Row]) -> None:
    styles = {"write": "-o", "read": "-s", "randwrite": "--o", "randread": "--s"}
    colours = {name: f"C{n}" for n, name in enumerate(dict.fromkeys(system_name(row) for row in rows))}
    for name, colour in colours.items():
        for pattern, style in styles.items():
            points = sorted(
                latest(
                    (row for row in rows if system_name(row) == name and row.pattern == pattern),
                    lambda row: (row.block_bytes,),
                ).items()
            )
            axes.plot(
                [key[0] / 1024 for key, _ in points],
                [row.mb_per_s for _, row in points],
                style,
                color=colour,
                label=f"{name}, {OPERATION_NAMES[pattern]}",
            )
    scale = 20 / 100  # their one target moved what a link of 100 Mbit/s has
    axes.plot([64], [scale * model.RAID_ONE_TARGET_64K_MB], "k^", label="paper: one target, a fifth of it")
    axes.plot([64], [scale * model.RAID_THREE_TARGETS_64K_MB], "kv", label="paper: S-iRAID on 3, a fifth of it")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("KiB a request")
    axes.set_title("Request size, 20 Mbit/s a link")


def _draw_targets(axes: Any, rows: list[Row]) -> None:
    for rate in sorted({row.conditions["link_mbit"] for row in rows if row.conditions["link_mbit"]}):
        for kind in ("S-iRAID", "P-iRAID"):
            points = sorted(
                (int(each["system"].split()[-1]), each)
                for each in gains([row for row in rows if row.conditions["link_mbit"] == rate])
                if each["system"].startswith(kind)
            )
            if points:
                axes.plot(
                    [count for count, _ in points],
                    [each["mean"] for _, each in points],
                    marker="o",
                    label=f"{kind}, {rate:g} Mbit/s"
                    + (" (host-bound)" if any(e["host_bound"] for _, e in points) else ""),
                )
    for kind, style in (("S-iRAID", "k^"), ("P-iRAID", "kv")):
        axes.plot([4], [model.RAID_TARGETS_4[kind]["mean"]], style, label=f"paper: {kind}, mean")
    axes.set_xticks(sorted({4} | {int(each["system"].split()[-1]) for each in gains(rows)}))
    axes.set_xlabel("targets")
    axes.set_ylabel("times one plain target (mean of four operations)")
    axes.set_title("Number of targets")


def _draw_utilisation(axes: Any, rows: list[Row]) -> None:
    rows = [row for row in rows if row.conditions["link_mbit"] and row.pattern in ("read", "write")]
    for name in dict.fromkeys(system_name(row) for row in rows if row.system == "plain" or row.members == 4):
        for pattern, style in (("write", "-o"), ("read", "--s")):
            points = sorted(
                latest(
                    (row for row in rows if system_name(row) == name and row.pattern == pattern),
                    lambda row: (row.conditions["link_mbit"],),
                ).items()
            )
            axes.plot(
                [key[0] for key, _ in points],
                [100 * row.conditions["measured"].get("utilisation", 0) for _, row in points],
                style,
                label=f"{name}, {OPERATION_NAMES[pattern]}",
            )
    speeds = sorted(model.RAID_UTILISATION)
    axes.plot(speeds, [100 * model.RAID_UTILISATION[speed] for speed in speeds], "k--^", label="paper")
    axes.set_xscale("log")
    axes.set_xlabel("Mbit/s a link")
    axes.set_ylabel("% of the links in use")
    axes.set_title("Use of the links, sequential")


def _draw_raw_tcp(axes: Any, rows: list[Row]) -> None:
    streams = {row.conditions["mtu"]: row.mb_per_s for row in rows if row.conditions.get("stream")}
    rows = [row for row in rows if not row.conditions.get("stream")]
    _lines(
        axes,
        rows,
        lambda row: f"{system_name(row)}, {OPERATION_NAMES[row.pattern]}, MTU {row.conditions['mtu']}",
        lambda row: row.conditions["segment_bytes"] / 1024,
    )
    for (mtu, mb_per_s), style in zip(streams.items(), ("k--", "k:"), strict=False):
        axes.axhline(mb_per_s, color="k", linestyle=style[1:], label=f"one TCP stream, MTU {mtu}")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("KiB a data segment")
    axes.set_title("Segments and a plain TCP stream, RTT 8 ms, 1 Gbit/s a link")


def _draw_cern(axes: Any, rows: list[Row]) -> None:
    bars = [
        (f"{name}, level {level}", [jobs.get(job, 0) for job in model.CERN_JOBS])
        for name, shares in cern_shares(rows).items()
        for level, jobs in shares.items()
    ]
    width = 0.8 / len(bars)
    for number, (name, values) in enumerate(bars):
        axes.bar(
            [place + width * number for place in range(len(values))],
            values,
            width,
            label=name,
            color="#999999" if name.startswith("CERN") else None,
            hatch="//" if name.endswith("10") else None,
        )
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(model.CERN_JOBS))], model.CERN_JOBS, fontsize=7)
    axes.set_ylabel("share of the own level 0")
    axes.set_title("CERN's jobs, 40 Mbit/s a link")


def _draw_latency(axes: Any, rows: list[Row]) -> None:
    rows = [row for row in rows if row.conditions["rtt_ms"]]
    for name in dict.fromkeys(system_name(row) for row in rows):
        for pattern, style in (("randwrite", "-o"), ("randread", "--s")):
            points = sorted(
                latest(
                    (row for row in rows if system_name(row) == name and row.pattern == pattern),
                    lambda row: (row.block_bytes,),
                ).items()
            )
            axes.plot(
                [key[0] / 1024 for key, _ in points],
                [row.p50_ms for _, row in points],
                style,
                label=f"{name}, {OPERATION_NAMES[pattern]}",
            )
    axes.set_xscale("log", base=2)
    axes.set_xlabel("KiB a command")
    axes.set_ylabel("ms, median")
    axes.set_title("Latency of one command at RTT 8 ms, 1 Gbit/s a link")


PLOTS: dict[str, tuple[str, Callable[[Any, list[Row]], None]]] = {
    "distance": ("distance", _draw_distance),
    "depth": ("distance-depth", _draw_depth),
    "request-size": ("request-size", _draw_request_size),
    "targets": ("targets", _draw_targets),
    "utilisation": ("targets", _draw_utilisation),
    "raw-tcp": ("raw-tcp", _draw_raw_tcp),
    "cern": ("cern", _draw_cern),
    "latency": ("latency", _draw_latency),
}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Tables and plots of the papers' experiments.")
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE", required=True, help="what --json wrote")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="an existing directory")
    given = parser.parse_args(words)
    if not given.out.is_dir():
        parser.error(f"--out {given.out}: no such directory; make it first")
    rows: list[Row] = []
    for path in given.report:
        try:
            rows += rows_module.read(path)[1]
        except rows_module.RowError as error:
            parser.error(f"--report: {error}")
    text = tables(rows)
    (given.out / "papers.md").write_text(text)
    print(text)
    for path in plots(rows, given.out):
        print(f"{path}: {path.stat().st_size} bytes", file=sys.stderr)
    return 0
