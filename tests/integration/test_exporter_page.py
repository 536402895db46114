"""The page in a real browser (Debian's chromium, headless): what it shows of a volume that is well, degraded, filled
again, and of a handler that has gone; that names are never markup; keyboard, contrast, phone.

    IRAID_PAGE_PICTURES=FOLDER scripts/test tests/integration/test_exporter_page.py     # keeps pictures to look at
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from control_peer import ControlPeer, event, member, page, volume
from exporter_peer import answers
from prometheus import Exporter
from watched import watched

from iraid_dev.stack.farm import TargetFarm
from iraid_dev.stack.private_gateway import Gateway, wait_until


try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ModuleNotFoundError:
    webdriver = None

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
LACKING = (
    ""
    if webdriver and CHROMIUM and DRIVER
    else ("no chromium, chromium-driver or python3-selenium: scripts/deps --long")
)
pytestmark = [pytest.mark.long, pytest.mark.timeout(300), pytest.mark.skipif(bool(LACKING), reason=LACKING or "-")]

# Ratio of each text's colour to what is behind it (WCAG 2, 1.4.3), below 4.5: text and ratio.
POOR_CONTRAST = """
const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
        const colour = parse(getComputedStyle(at).backgroundColor);
        if (colour.length < 4 || colour[3] > 0)
            return colour;
    }
    return [255, 255, 255];
};
const poor = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let seen = 0;
while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || style.visibility === "hidden" || !element.getClientRects().length)
        continue;
    const ink = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(parse(ink)), light(behind(element))].sort((x, y) => y - x);
    seen++;
    if ((a + 0.05) / (b + 0.05) < 4.5)
        poor.push(walker.currentNode.data + ": " + ((a + 0.05) / (b + 0.05)).toFixed(2));
}
return [seen, poor];
"""


class Browser:
    def __init__(self, width: int = 1280, height: int = 1500, dark: bool = False) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for word in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            f"--window-size={width},{height}",
        ):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=webdriver.chrome.service.Service(DRIVER), options=options)
        # A window is never narrower than some 500 pixels, a phone is.
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
        )

    def text(self, selector: str = "body") -> str:
        """What a reader sees of all that fits; empty where there is none yet."""
        return self.driver.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join('\\n')", selector
        )

    def wait_for_text(self, words: str, selector: str = "body", seconds: float = 30) -> str:
        last = ""

        def there() -> bool:
            nonlocal last
            last = self.text(selector)
            return words in last

        try:
            wait_until(there, f"'{words}' in {selector}", seconds)
        except AssertionError as late:
            raise AssertionError(f"{late}; it says:\n{last}") from None
        return last

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def picture(self, name: str) -> None:
        folder = os.environ.get("IRAID_PAGE_PICTURES")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            height = self.run("return document.documentElement.scrollHeight")
            width = self.run("return document.documentElement.clientWidth")
            shot = self.driver.execute_cdp_cmd(
                "Page.captureScreenshot",
                {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}},
            )
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def browser(url: str, **options: Any) -> Iterator[Browser]:
    """At the end nothing may stand in the console, and nothing may have come from elsewhere."""
    opened = Browser(**options)
    try:
        opened.driver.get(url)
        yield opened
        assert opened.complaints() == []
        origins = opened.run("return performance.getEntriesByType('resource').map((one) => new URL(one.name).origin)")
        assert set(origins) == {url.rstrip("/")}
    finally:
        opened.driver.quit()


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """shown(answers): an exporter of a handler that says that."""
    peers: list[Any] = []

    def start(given: dict[str, Any]) -> Exporter:
        peer = ControlPeer(tmp_path / "control.sock", given)
        peer.__enter__()
        exporter = Exporter(tmp_path / "control.sock", tmp_path)
        peers.extend([peer, exporter])
        return exporter.__enter__()

    yield start
    for one in reversed(peers):
        one.__exit__(None, None, None)


def test_the_page_follows_a_volume_degraded_filled_again_and_gone(
    gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path
) -> None:
    """With a real volume, real targets and real load."""
    with watched(gateway, make_farm, tmp_path, member_bytes=128 << 20) as one, one.load() as load:
        with browser(one.exporter.url) as page_:
            page_.wait_for_text("The volume is ok", "#verdict")
            said = page_.wait_for_text("survives the loss of any member", "article")
            assert all(target in said for target in one.farm.members()[:4])
            assert "active on this gateway for" in said
            # Of the plots: a point every five seconds, so three make a line.
            wait_until(
                lambda: (
                    page_.run(
                        "return document.querySelector('article svg[role=img] path.read').getAttribute('d').split('L').length"
                    )
                    > 3
                ),
                "a line in the plot",
                60,
            )
            assert "MiB/s" in page_.text("figure output") or "KiB/s" in page_.text("figure output")
            page_.picture("well")

            one.iraid("set", "v0", "--rate-min", "256K", "--rate-max", "256K")
            one.farm.kill(1)
            page_.wait_for_text("Volume v0 is degraded", "#verdict")
            page_.wait_for_text("survives no further loss", "article")
            page_.wait_for_text("To do: iraid examine", "article")
            page_.wait_for_text("faulty", "article table")
            page_.wait_for_text("error", "#events")
            page_.picture("degraded")

            one.iraid("replace", "v0", "1", one.farm.member(4))
            page_.wait_for_text("rebuild", ".work")
            said = page_.wait_for_text("left", ".work")
            assert one.farm.member(4) in said and "%" in said
            wait_until(
                lambda: page_.run("return Number(document.querySelector('progress').value)") > 0,
                "progress to be seen",
                60,
            )
            page_.picture("rebuilding")
            one.iraid("set", "v0", "--rate-min", "1G", "--rate-max", "1G")
            page_.wait_for_text("The volume is ok", "#verdict", 120)

            load.stop()
            one.served.kill()
            page_.wait_for_text("The handler does not answer", "#verdict")
            said = page_.text("#verdict")
            assert "Remedy: " in said and "The data below is from" in said
            assert one.farm.member(0) in page_.text("article")
            page_.picture("handler gone")


def test_without_an_exporter_the_page_says_so_and_goes_on_when_it_is_back(
    shown: Callable[..., Any], tmp_path: Path
) -> None:
    exporter = shown(answers())
    opened = Browser()
    try:
        opened.driver.get(exporter.url)
        opened.wait_for_text("The volume is ok", "#verdict")
        exporter._process.stop()
        opened.wait_for_text("The exporter does not answer", "#verdict")
        assert "The data below is from" in opened.text("#verdict")
        # On the same port: the page knows no other.
        words = exporter._process.words
        words[words.index("--port") + 1] = exporter.address.rsplit(":")[-1]
        exporter._process.start()
        opened.wait_for_text("The volume is ok", "#verdict", 60)
    finally:
        opened.driver.quit()


def test_without_a_handler_an_old_state_does_not_look_like_one_of_now(tmp_path: Path) -> None:
    with ExitStack() as handler:
        handler.enter_context(ControlPeer(tmp_path / "control.sock", answers()))
        with Exporter(tmp_path / "control.sock", tmp_path) as exporter, browser(exporter.url) as opened:
            opened.wait_for_text("active", ".badge")
            handler.close()
            opened.wait_for_text("The handler does not answer", "#verdict")
            assert "was active" in opened.text(".badge")
            assert opened.text("#gateway").endswith("(gone)")
            assert member(0)["member"] in opened.text("article")


def test_a_volume_on_standby_says_since_when_and_how_often_it_moved(shown: Callable[..., Any]) -> None:
    since_ms = time.time_ns() // 1_000_000 - 7_200_000
    away = volume(state="standby", role="standby", role_since_ms=since_ms, role_changes=9, role_changes_hour=4)
    with browser(shown(answers([away])).url) as opened:
        said = opened.wait_for_text("standby on this gateway for 2", "article")
        assert "4 changes in the last hour" in said


def test_how_long_is_said_in_whole_seconds(shown: Callable[..., Any]) -> None:
    since_ms = time.time_ns() // 1_000_000 - 90_400
    with browser(shown(answers([volume(role="active", role_since_ms=since_ms)])).url) as opened:
        said = opened.wait_for_text("active on this gateway", "article")
        assert re.search(r"active on this gateway for \d min \d+ s( |$)", said, re.MULTILINE), said


def test_names_are_text_and_never_markup(shown: Callable[..., Any]) -> None:
    evil = "<script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"
    members = [member(0, member=f"{evil}/iqn.x/0", reason=evil, portals=[evil]), member(1, state=evil)]
    exporter = shown(
        answers(
            [volume(members=members, reason=evil, users=[evil], state=evil)],
            events=page(event(1, text=evil, volume=evil, severity=evil)),
            spares=[{"device": evil, "size_bytes": 1}],
        )
    )
    with browser(exporter.url) as opened:
        opened.wait_for_text(evil, "article")
        opened.wait_for_text(evil, "#events")
        opened.wait_for_text(evil, "#spares")
        assert opened.run("return window.broken") is None
        assert opened.run("return document.querySelectorAll('img, main script').length") == 0
        opened.picture("markup in names")


@pytest.fixture
def busy() -> dict[str, Any]:
    """All that the page can show at once."""
    work_of = {
        "running": True,
        "done_rows": 431,
        "total_rows": 1000,
        "bytes_per_second": 120 << 20,
        "seconds_left": 130,
        "reason": "",
    }
    members = [
        member(0),
        member(1, state="rebuilding", role=1, stale_rows=5),
        member(2, slow=True, medium_errors=3),
        member(3, state="faulty", link="closed", reason="no answer for 5 s"),
        member(4, state="spare", role=None),
    ]
    volumes = [
        volume(
            "archive",
            level=6,
            state="degraded",
            members=members,
            rebuild={**work_of, "member": members[1]["member"]},
            lost={"extents": 2, "bytes": 131072},
        ),
        volume("build", scrub={**work_of, "active": True, "mode": "check", "mismatches": 4, "mismatch_offsets": [0]}),
        volume("cache", level=0),
        volume("failed", state="failed", reason="too few members"),
        volume("off", state="stopped", level=None),
        volume("waiting", state="suspended"),
    ]
    return answers(
        volumes,
        events=page(
            event(1, severity="notice"),
            event(2, severity="error", text="member 10.0.0.4:3260/iqn/0 was left out"),
            event(3),
        ),
        spares=[{"device": "10.0.0.9:3260/iqn.2026-01.org.example:spare/0", "size_bytes": 1 << 40}],
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360], ids=["desktop", "phone"])
def test_it_can_be_read(shown: Callable[..., Any], busy: dict[str, Any], width: int, dark: bool) -> None:
    with browser(shown(busy).url, width=width, height=900, dark=dark) as opened:
        opened.wait_for_text("Volume archive is degraded.", "#verdict")
        seen, poor = opened.run(POOR_CONTRAST)
        assert seen > 100 and poor == []
        # Nothing sticks out sideways.
        assert opened.run("return document.documentElement.scrollWidth") <= width
        assert (
            opened.run(
                "return [...document.querySelectorAll('td')].filter((one) => one.scrollWidth > one.clientWidth + 1)"
                ".map((one) => one.innerText)"
            )
            == []
        )
        back = opened.run("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, back.removeprefix("rgb(").removesuffix(")").split(","))) < 200) == dark
        opened.picture(f"{'phone' if width < 600 else 'desktop'} {'dark' if dark else 'light'}")


def test_it_can_be_used_by_keyboard(shown: Callable[..., Any], busy: dict[str, Any]) -> None:
    with browser(shown(busy).url) as opened:
        opened.wait_for_text("archive", "article")
        wait_until(
            lambda: opened.run("return document.querySelectorAll('article svg[role=img] text').length") > 0, "plots", 30
        )
        reached = set()
        for _ in range(60):
            opened.driver.switch_to.active_element.send_keys(Keys.TAB)
            active = opened.driver.switch_to.active_element
            reached.add(active.get_attribute("role") or active.tag_name)
            outline = opened.run("return getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or active.tag_name == "body", active.get_attribute("outerHTML")[:200]
        assert {"img", "region", "select", "a"} <= reached
        labels = opened.run(
            "return [...document.querySelectorAll('[tabindex], progress, select')]"
            ".filter((e) => !e.ariaLabel && !e.getAttribute('aria-labelledby') && !e.labels?.length).length"
        )
        assert labels == 0


def test_arrow_keys_read_a_plot_off(gateway: Gateway, make_farm: Callable[..., TargetFarm], tmp_path: Path) -> None:
    with watched(gateway, make_farm, tmp_path) as one, one.load(), browser(one.exporter.url) as opened:
        wait_until(lambda: len(one.exporter.status()["volumes"][0]["points"]) >= 3, "three points", 60)
        opened.wait_for_text("read", "figure output")
        opened.run("document.querySelector('article svg[role=img]').focus()")
        plot = opened.driver.switch_to.active_element
        last = opened.text("figure output")
        plot.send_keys(Keys.HOME)
        assert opened.text("figure output") != last
        assert opened.run("return document.querySelectorAll('path.cursor').length") == 1
        plot.send_keys(Keys.END)
        assert "read" in opened.text("figure output")


def test_events_can_be_narrowed_down(shown: Callable[..., Any], busy: dict[str, Any]) -> None:
    with browser(shown(busy).url) as opened:
        opened.wait_for_text("notice", "#events tbody")
        Select(opened.driver.find_element(By.ID, "least")).select_by_visible_text("warnings and worse")
        said = opened.text("#events tbody")
        assert "notice" not in said and "error" in said
