"""What the hostile soak makes of the window of the load's session."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from iraid_dev.soak import hostile, lab
from iraid_dev.soak.driver import Wrong
from iraid_dev.stack.command_window import Window


class Load:
    """A prober that makes a round at each look, until it hangs."""

    def __init__(self) -> None:
        self.made, self.hangs, self.errors = 0, False, []

    @property
    def rounds(self) -> int:
        self.made += not self.hangs
        return self.made


@pytest.fixture
def stage(monkeypatch):
    """`stage.window` is what LIO says; a new session has `stage.next`."""
    stage = object.__new__(hostile.HostileStage)
    load = Load()
    stage.watch = SimpleNamespace(prober=load, fio=SimpleNamespace(errors=[]))
    stage.volume = SimpleNamespace(iqn="iqn", disk="disk", status=dict)
    stage.window, stage.next, stage.renewed = Window(1, 128, 128), Window(2, 128, 128), []

    def renew(disk: str) -> None:
        stage.renewed.append(disk)
        stage.window = stage.next

    seconds = iter(range(10**6))
    for module in (hostile, lab):
        monkeypatch.setattr(module, "window_of", lambda iqn: stage.window)
    monkeypatch.setattr(hostile, "renew_session", renew)
    monkeypatch.setattr(lab, "show_blocked_tasks", lambda: None)
    monkeypatch.setattr(lab.time, "sleep", lambda _: None)
    monkeypatch.setattr(lab.time, "monotonic", lambda: float(next(seconds)))
    return stage


@pytest.mark.parametrize("left", [128, 128 - hostile.IN_FLIGHT_MAX])
def test_a_whole_window_is_not_worth_a_word(stage, left):
    stage.window = Window(1, 128, left)
    assert stage.tend() == "" and not stage.renewed


def test_a_window_that_has_shrunk_is_told(stage):
    stage.window = Window(1, 128, 64)
    assert stage.tend() == "64 of 128 places left in the window of the load's session"
    assert not stage.renewed


def test_a_session_with_less_than_half_a_window_is_made_anew(stage):
    stage.window = Window(1, 128, 63)
    assert stage.tend() == "63 of 128 places left in the window of the load's session: it was made anew"
    assert stage.renewed == ["disk"]


@pytest.mark.parametrize("next_one", [Window(1, 128, 63), Window(2, 128, 40)])
def test_a_session_that_is_not_new_or_not_whole_is_wrong(stage, next_one):
    stage.window, stage.next = Window(1, 128, 63), next_one
    with pytest.raises(Wrong, match="was made anew and has"):
        stage.tend()


@pytest.mark.parametrize("left", [0, 128])
def test_a_load_that_stands_still_is_wrong_whatever_its_window(stage, left):
    stage.window, stage.watch.prober.hangs = Window(1, 128, left), True
    for ask in (stage.wait_probes, stage.tend):
        with pytest.raises(Wrong, match=f"for the load to run; {left} of 128 places left"):
            ask()
    assert not stage.renewed
