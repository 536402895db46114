"""What the shell offers for a volume's name or a member: what the handler says, or nothing if it does not answer."""

from typing import Any

from iraid.control.client import Client
from iraid.control.errors import IraidError


def _client(context: Any) -> Client:
    return Client(context.params.get("socket") or (context.parent and context.parent.params.get("socket")))


def volumes(context: Any, _parameter: Any, incomplete: str) -> list[str]:
    try:
        return [v.name for v in _client(context).volumes() if v.name.startswith(incomplete)]
    except IraidError:
        return []


def members(context: Any, _parameter: Any, incomplete: str) -> list[str]:
    name = context.params.get("name")
    try:
        volume = _client(context).status(name) if name else None
    except IraidError:
        return []
    return [m.member for m in volume.members if m.member.startswith(incomplete)] if volume else []
