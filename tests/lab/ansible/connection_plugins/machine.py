"""Ansible's connection to a machine of `scripts/lab --machines`: in the place of ssh, the lab's own control network."""

import base64
import sys
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "python"))

from iraid_dev.lab.machines import MachineGone, Machines

DOCUMENTATION = """
    name: machine
    short_description: a machine of the lab
    description: Runs commands in a machine of the lab, by its inventory name.
    options: {}
"""


class Connection(ConnectionBase):
    transport = "machine"
    has_pipelining = True

    def _connect(self):
        self.machine = Machines.of_this_lab()[self._play_context.remote_addr]
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        try:
            done = self.machine.run(cmd, given=(in_data or b"").decode(), seconds=300)
        except MachineGone as gone:
            raise AnsibleConnectionFailure(str(gone)) from gone
        return done.status, done.output.encode(), done.errors.encode()

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        text = base64.b64encode(Path(in_path).read_bytes()).decode()
        status, _, errors = self.exec_command(f"base64 -d >{out_path}", text.encode())
        if status != 0:
            raise AnsibleConnectionFailure(f"{in_path} could not be put to {out_path}: {errors.decode()}")

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        status, out, errors = self.exec_command(f"base64 {in_path}")
        if status != 0:
            raise AnsibleConnectionFailure(f"{in_path} could not be fetched: {errors.decode()}")
        Path(out_path).write_bytes(base64.b64decode(out))

    def close(self):
        self._connected = False
