#!/usr/bin/python3
"""The pair of pair.py where Pacemaker decides: each fault is struck, and nobody does anything.

    scripts/lab --machines a,b,i --timeout 3000 -- tests/lab/pacemaker_faults.py [FAULT...]

A line of JSON for each fault, then the table of pair_faults.py.  Exit status 1: something was not as it must be.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from pair import GUEST, MULTIPATH, VOLUME, Gateway, Pair, wait_until
from pair_faults import table

# An emulated processor: forks take a hundred times longer, and two machines share this one's.
RESOURCE = (
    f"pcs resource create {VOLUME} ocf:iraid:volume volume={VOLUME} timeout=60 answer_timeout=20 settle=60"
    " op monitor interval=10 timeout=60 role=Promoted op monitor interval=17 timeout=60 role=Unpromoted"
    " op start timeout=120 op promote timeout=150 op demote timeout=150 op stop timeout=150"
    " meta migration-threshold=3 failure-timeout=10min promotable --disabled"
)
# It begins when all is said: a preference moves no volume back that is active elsewhere already.
SET_UP = (
    "pcs property set stonith-enabled=false",
    RESOURCE,
    f"pcs constraint location {VOLUME}-clone rule role=Promoted score=10 '#uname' eq a",
    f"pcs resource enable {VOLUME}-clone",
)
DECIDES_SECONDS = 300.0


class Cluster(Pair):
    def __enter__(self) -> Cluster:
        super().__enter__()
        try:
            for gateway in (self.a, self.b):
                gateway.iraid("standby", VOLUME).good()
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        words = " ".join(f"{one.machine.name} {one.machine.address('peer')}" for one in (self.a, self.b))
        begun = [one.machine.start(f"{GUEST}/cluster {words}", seconds=300.0) for one in (self.a, self.b)]
        for one in begun:
            one.wait(300.0).good()
        self.words = words
        self.wait_seen(self.a, "a", "b")
        self.wait_own_settings()
        for command in SET_UP:
            self.a.machine.run(command, seconds=120.0).good()
        self.wait_promoted(self.a)

    def wait_seen(self, by: Gateway, *names: str) -> None:
        wait_until(lambda: sorted(by.machine.run("crm_node -p").output.split()) == sorted(names),
                   f"{by.machine.name} to see {names}", DECIDES_SECONDS)  # fmt: skip

    def wait_own_settings(self) -> None:
        """Pacemaker writes some once it has begun; settings of ours made at that moment would be refused."""
        query = "crm_attribute --type crm_config --query --name dc-version"
        wait_until(lambda: self.a.machine.run(query).status == 0, "Pacemaker's own settings", DECIDES_SECONDS)

    def wait_promoted(self, gateway: Gateway) -> None:
        def promoted() -> bool:
            shown = gateway.machine.run(f"crm_resource --resource {VOLUME}-clone --locate").output
            return f"is running on: {gateway.machine.name} Promoted" in shown and gateway.role() == "active"

        wait_until(promoted, f"{gateway.machine.name} to be promoted", DECIDES_SECONDS)
        self.active = gateway
        self.step(f"{gateway.machine.name} promoted")

    def goes_to(self, gateway: Gateway) -> None:
        self.spy.forgive(gateway.members_see)
        self.wait_writes(gateway, DECIDES_SECONDS)
        self.wait_promoted(gateway)

    def give_back(self) -> None:
        """pcs refuses a move that changes nothing, as long as the one that was fenced off has no score (settle)."""
        move = f"pcs resource move {VOLUME}-clone a --promoted"
        wait_until(
            lambda: self.b.machine.run(move, seconds=200.0).status == 0, "pcs to move the volume back", DECIDES_SECONDS
        )
        self.wait_promoted(self.a)

    def rejoin(self, gateway: Gateway) -> None:
        gateway.start_runner()
        gateway.machine.run("targetctl restore").good()
        gateway.machine.run(f"{GUEST}/cluster {self.words}", seconds=300.0).good()
        self.wait_seen(self.active, "a", "b")


def move(cluster: Cluster) -> None:
    cluster.a.machine.run(f"pcs resource move {VOLUME}-clone b --promoted", seconds=200.0)
    cluster.goes_to(cluster.b)


def killed_kernel(cluster: Cluster) -> None:
    cluster.a.machine.kill()
    cluster.goes_to(cluster.b)
    cluster.a.machine.boot()
    cluster.rejoin(cluster.a)
    cluster.step("a is back")


def cut_peer(cluster: Cluster) -> None:
    cluster.a.machine.cut("peer")
    cluster.goes_to(cluster.b)
    cluster.wait_role(cluster.a, "standby", DECIDES_SECONDS)
    cluster.a.machine.heal("peer")
    cluster.wait_seen(cluster.b, "a", "b")
    cluster.step("healed")


def cut_members(cluster: Cluster) -> None:
    cluster.a.machine.cut("back")
    cluster.goes_to(cluster.b)
    cluster.a.machine.heal("back")


def hung_runner(cluster: Cluster) -> None:
    cluster.a.machine.run("kill -STOP $(cat /run/runner.pid)").good()
    cluster.goes_to(cluster.b)
    wait_until(lambda: cluster.a.machine.run("kill -0 $(cat /run/runner.pid)").status != 0, "the runner to be killed")
    cluster.a.start_runner()


def killed_cluster(cluster: Cluster) -> None:
    """The gateway serves on, and the other one takes it for dead."""
    cluster.a.machine.run("pkill -9 '^(pacemaker|corosync)'").good()
    cluster.goes_to(cluster.b)
    cluster.wait_role(cluster.a, "standby", DECIDES_SECONDS)
    cluster.a.machine.run(f"{GUEST}/cluster {cluster.words}", seconds=300.0).good()
    cluster.wait_seen(cluster.b, "a", "b")


FAULTS: dict[str, Callable[[Cluster], None]] = {
    "move": move,
    "killed-kernel": killed_kernel,
    "cut-peer": cut_peer,
    "cut-members": cut_members,
    "hung-runner": hung_runner,
    "killed-cluster": killed_cluster,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", help=f"of {', '.join(FAULTS)} (default all)")
    given = parser.parse_args()
    for name in given.faults:
        if name not in FAULTS:
            parser.error(f"'{name}' is no fault; choose from {', '.join(FAULTS)}")
    rows = []
    with Cluster(Path(os.environ["IRAID_LAB_STATE"]), MULTIPATH) as cluster:
        for name in given.faults or FAULTS:
            cluster.begin_writing()
            cluster.fault(name)
            FAULTS[name](cluster)
            cluster.wait_role(cluster.a, "standby", DECIDES_SECONDS)
            cluster.wait_resynced()
            rows.append(cluster.end_writing())
            print(json.dumps(dataclasses.asdict(rows[-1])), flush=True)
            cluster.b.machine.run(f"pcs resource cleanup {VOLUME}", seconds=120.0)
            cluster.spy.forgive(cluster.a.members_see)  # its turn begins again
            cluster.give_back()
    print(table(rows))
    return 0 if all(seen.clean() for seen in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
