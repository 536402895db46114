"""Carries out, in one of several machines, the commands that come over the control network.

A request and its answer are a line of JSON each; a connection is for one command.  The other end is machines.py.
"""

import json
import os
import signal
import socketserver
import subprocess
import sys
from typing import Any

EXIT_TIME = 124  # as timeout(1)


def carry_out(command: str, given: str, seconds: float) -> dict[str, Any]:
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(given.encode(), timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        status = EXIT_TIME
    return {
        "status": status,
        "output": output.decode(errors="replace"),
        "errors": errors.decode(errors="replace"),
    }


class Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        if line := self.rfile.readline():
            asked = json.loads(line)
            answer = carry_out(asked["command"], asked["input"], asked["seconds"])
            self.wfile.write(json.dumps(answer).encode() + b"\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    with Server((sys.argv[1], int(sys.argv[2])), Request) as server:
        server.serve_forever()
