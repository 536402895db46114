"""A target may send a login elsewhere only as far as `redirects` allows: sessions of volumes, and administration."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from fake_target import FakeTarget

from iraid_dev.stack.private_gateway import Gateway, RpcError, call

pytestmark = [pytest.mark.sanitized_alone, pytest.mark.timeout(60)]
HOPS_MAX = 3
DOOR = "redirects the login to"


@pytest.fixture
def gateway(make_gateway: Callable[..., Gateway]) -> Gateway:
    gateway = make_gateway()
    gateway.start()
    return gateway


# Sessions of a volume


@pytest.mark.parametrize("option", [(), ("redirects=portals",), ("redirects=no",)], ids=["default", "portals", "no"])
@pytest.mark.parametrize("host", ["127.0.0.2", "::1"])
def test_a_login_is_not_sent_to_a_portal_that_the_member_does_not_name(start, option, host) -> None:
    with FakeTarget(host=host) as other, FakeTarget(redirect=other.portal) as door:
        said = start(door.member, *option).ask("open")
        assert said.startswith("closed EACCES") and not other.connections
        value = "no" if option == ("redirects=no",) else "portals"
        for word in (door.portal, f"{DOOR} {other.portal}", f"redirects = {value}", "redirects = yes"):
            assert word in said
        assert len(door.isids) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("option", [(), ("redirects=yes",)], ids=["named", "yes"])
def test_a_login_is_sent_on_where_that_is_allowed(start, option, host) -> None:
    with FakeTarget(host=host) as real, FakeTarget(redirect=real.portal) as door:
        probe = start(door.member, *(option or (f"portal={real.portal}",)))
        probe.open()
        assert real.isids == door.isids


def test_a_portal_that_the_member_names_is_known_by_its_number(start) -> None:
    """Two ways to write one IPv6 address."""
    with FakeTarget(host="::1") as real:
        port = real.portal.rpartition(":")[2]
        with FakeTarget(redirect=f"[0:0::0001]:{port}") as door:
            start(door.member, f"portal={real.portal}").open()
        with FakeTarget(redirect=f"[::1%{'x' * 8}]:{port}") as door:
            assert DOOR in start(door.member, f"portal={real.portal}").ask("open")


def test_no_redirection_is_followed_not_even_to_a_portal_of_the_member(start) -> None:
    with FakeTarget() as real, FakeTarget(redirect=real.portal) as door:
        said = start(door.member, "redirects=no", f"portal={real.portal}").ask("open")
        assert "redirects = no" in said and not real.connections


@pytest.mark.parametrize("option", ["redirects=portals", "redirects=yes"])
def test_a_login_that_is_sent_on_without_end_ends(start, option) -> None:
    with FakeTarget() as door:
        door.redirect = door.portal
        assert "portal to portal" in start(door.member, option).ask("open")
        assert len(door.isids) == HOPS_MAX + 1


def test_a_name_is_looked_up_only_where_any_portal_is_allowed(start) -> None:
    with FakeTarget(redirect="no-such-host.invalid:3260") as door:
        assert "redirects = portals" in start(door.member).ask("open")
        said = start(door.member, "redirects=yes").ask("open")
        assert re.match(r"closed E\w+ .* no-such-host.invalid:3260: ", said), said


@pytest.mark.parametrize(
    "where",
    ["", ":", ":3260", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "[::1", "[]:1", "a" * 254 + ":1", "$(id):1",
     "host name:1", "\x1b[2J:1", "127.0.0.1:3260/x"],
)  # fmt: skip
def test_what_is_no_portal_ends_the_login_under_any_setting(start, where) -> None:
    with FakeTarget() as door:
        door.redirect = where or "\0"
        said = start(door.member, "redirects=yes").ask("open")
        assert said.startswith("closed EPROTO"), said
        assert said.isprintable()


# Administration


def settings(gateway: Gateway, value: str) -> None:
    (gateway.config / "gateway.conf").write_text(f"[volumes]\nredirects = {value}\n")
    (gateway.config / "gateway.conf").chmod(0o600)


def examined(gateway: Gateway, *portals: str) -> str:
    """Empty, or why not."""
    try:
        call(gateway.socket, "examine", member=f"{','.join(portals)}/{FakeTarget.iqn}/0")
    except RpcError as error:
        return f"{error} {error.remedy}"
    return ""


def test_administration_keeps_to_the_setting_of_the_gateway(gateway: Gateway) -> None:
    with ExitStack() as stack:
        real = stack.enter_context(FakeTarget(host="127.0.0.2"))
        door = stack.enter_context(FakeTarget(redirect=real.portal))
        for value, portals, allowed in (
            ("portals", (door.portal,), False), ("portals", (door.portal, real.portal), True),
            ("no", (door.portal, real.portal), False), ("yes", (door.portal,), True),
        ):  # fmt: skip
            settings(gateway, value)
            real.connections.clear()
            said = examined(gateway, *portals)
            assert bool(said) != allowed and bool(real.connections) == allowed, (value, portals, said)
            if not allowed:
                for word in (door.member, f"{DOOR} {real.portal}", f"redirects = {value}", "redirects = yes"):
                    assert word in said
        (gateway.config / "gateway.conf").unlink()
        assert "redirects = portals" in examined(gateway, door.portal)


def test_no_redirection_of_a_discovery_is_followed_where_none_is_allowed(gateway: Gateway) -> None:
    settings(gateway, "no")
    with FakeTarget() as real, FakeTarget(redirect=real.portal) as door:
        with pytest.raises(RpcError, match=rf"portal {door.portal}.* {DOOR} {real.portal}.*redirects = no"):
            call(gateway.socket, "discover", portal=door.portal, all_portals=True)
        assert not real.connections


def test_a_value_that_is_none_is_named(gateway: Gateway) -> None:
    settings(gateway, "sometimes")
    said = gateway.iraid("config", "check")
    assert said.status != 0 and 'redirects: "sometimes" is none of no, portals and yes' in said.out + said.err
