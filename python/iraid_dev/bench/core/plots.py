"""Plots of a section: throughput, latency, processor time.  The only user of matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from matplotlib import pyplot, ticker
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from .cells import size_text
from .report import Section
from .row import PATTERNS

pyplot.switch_backend("Agg")  # no display is needed

# Told apart also by those who see no red or no green (Okabe and Ito).
COLOURS = {
    "iraid": "#0072b2",
    "md": "#d55e00",
    "md-nobitmap": "#e69f00",
    "md-ppl": "#f0e442",
    "md-journal": "#000000",
    "lvm": "#009e73",
    "plain": "#999999",
    "ceiling": "#56b4e9",
    "engine": "#0072b2",
    "raw": "#999999",
    "spdk": "#d55e00",
}
OTHER_COLOUR = "#cc79a7"
GROUP_WIDTH = 0.8
FORMATS = ("png", "svg")


def _colour(system: str) -> str:
    return COLOURS.get(system, OTHER_COLOUR)


def _throughput(axes: Axes, section: Section, system: str, places: list[float], width: float, cells: list) -> None:
    for place, cell in zip(places, cells, strict=True):
        if found := section.figure(system, cell, "mb_per_s"):
            axes.bar(place, found.median, width, color=_colour(system))
            if found.count > 1:
                axes.errorbar(
                    place,
                    found.median,
                    [[found.median - found.low], [found.high - found.median]],
                    color="black",
                    elinewidth=0.8,
                    capsize=1.5,
                )


def _latency(axes: Axes, section: Section, system: str, places: list[float], width: float, cells: list) -> None:
    for place, cell in zip(places, cells, strict=True):
        if found := section.figure(system, cell, "p50_ms"):
            axes.bar(place, found.median, width, color=_colour(system))
        for figure, marker in (("p99_ms", "_"), ("p999_ms", ".")):
            if found := section.figure(system, cell, figure):
                axes.plot(place, found.median, marker, color="black", markersize=5)


def _processor(axes: Axes, section: Section, system: str, places: list[float], width: float, cells: list) -> None:
    """The part in user mode is hatched."""
    for place, cell in zip(places, cells, strict=True):
        if found := section.figure(system, cell, "cpu_s_per_gib"):
            axes.bar(place, found.median, width, color=_colour(system))
        if found := section.figure(system, cell, "cpu_user_s_per_gib"):
            axes.bar(place, found.median, width, color=_colour(system), hatch="////", edgecolor="white", linewidth=0)


Draw = Callable[[Axes, Section, str, list[float], float, list], None]
KINDS: dict[str, tuple[str, str, bool, Draw]] = {  # label, figure, logarithmic
    "throughput": ("MB/s (bar: median;\nline: least and greatest round)", "mb_per_s", False, _throughput),
    "latency": ("ms (bar: p50; dash: p99; dot: p99.9)", "p50_ms", True, _latency),
    "processor": ("CPU s/GiB (hatched: user mode)", "cpu_s_per_gib", False, _processor),
}


def draw(section: Section, kind: str, folder: Path) -> str:
    """Writes one picture in all FORMATS.  Returns the PNG's name.  A panel a size of command, each with its own scale."""
    label, _, logarithmic, one = KINDS[kind]
    blocks = sorted({cell.block_bytes for cell in section.cells})
    figure, panels = pyplot.subplots(1, len(blocks), figsize=(1.6 + 3.4 * len(blocks), 3.4), squeeze=False)
    for axes, block in zip(panels[0], blocks, strict=True):
        cells = [
            cell
            for pattern in PATTERNS
            for cell in section.cells
            if cell.pattern == pattern and cell.block_bytes == block
        ]
        width = GROUP_WIDTH / len(section.systems)
        if logarithmic:
            axes.set_yscale("log")
        for number, system in enumerate(section.systems):
            begin = (number + 0.5) * width - GROUP_WIDTH / 2
            one(axes, section, system, [place + begin for place in range(len(cells))], width * 0.94, cells)
        if logarithmic:  # whole decades, or bars of nearly the same height look far apart
            low, high = axes.get_ylim()
            axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
            axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(size_text(block), fontsize=10)
        axes.set_xticks(range(len(cells)), [cell.pattern for cell in cells], fontsize=8)
        axes.set_xlim(-0.5, len(cells) - 0.5)
        axes.tick_params(axis="y", labelsize=8)
        axes.grid(axis="y", linewidth=0.4, alpha=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0][0].set_ylabel(label, fontsize=8)
    swatches = [Rectangle((0, 0), 1, 1, color=_colour(system)) for system in section.systems]
    figure.suptitle(section.title, fontsize=10, x=0.01, ha="left")
    figure.legend(swatches, section.systems, loc="upper right", ncol=len(swatches), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.97))
    name = f"{section.slug}-{kind}"
    for extension in FORMATS:
        figure.savefig(folder / f"{name}.{extension}", dpi=130)
    pyplot.close(figure)
    return f"{name}.png"


def draw_all(section: Section, folder: Path) -> list[str]:
    return [draw(section, kind, folder) for kind, (_, figure, *_) in KINDS.items() if section.has(figure)]
