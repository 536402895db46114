"""Ansible's connection to a guest of the lab: in the place of ssh, the files of tests/lab/agent.py.

The folder is in the environment's IRAID_LAB_SHARE.
"""

import os
import shutil
import sys
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import agent

DOCUMENTATION = """
    name: guest
    short_description: a guest of the lab
    description: Runs commands in a guest of the lab through files in a shared folder.
    options: {}
"""


class Connection(ConnectionBase):
    transport = "guest"
    has_pipelining = True

    def _connect(self):
        self.folder = Path(os.environ["IRAID_LAB_SHARE"])
        self._connected = True
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        try:
            return agent.call(self.folder, cmd, in_data or b"", seconds=300)
        except agent.GuestGone as gone:
            raise AnsibleConnectionFailure(str(gone)) from gone

    def put_file(self, in_path, out_path):
        super().put_file(in_path, out_path)
        agent.put(self.folder, Path(in_path), out_path)

    def fetch_file(self, in_path, out_path):
        super().fetch_file(in_path, out_path)
        way = self.folder / Path(out_path).name
        self.exec_command(f"cp {in_path} {way}")
        shutil.move(way, out_path)

    def close(self):
        self._connected = False
