"""The shape of a saved configuration of LIO, as far as it is relied on here.  People edit the file: what is valid JSON may
still lack a name, or have a text where entries belong.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

VALUE_CHARACTERS_MAX = 40  # of one that a fault shows

_Keys = dict[str, Any]  # key -> str, int, dict, object (anything), _Each (a list), or _PATH


@dataclass(frozen=True)
class _Each:
    """A list of objects: keys that each must have, and keys that it may have."""

    required: _Keys
    optional: _Keys


_PATH = re.compile(r"/backstores/[^/]+/[^/]+")
_ACL = _Each({"node_wwn": str}, {"mapped_luns": _Each({"index": int, "tpg_lun": int}, {})})
_GROUP = _Each(
    {},
    {
        "tag": int,
        "attributes": dict,
        "parameters": dict,
        "luns": _Each({"index": int, "storage_object": _PATH}, {}),
        "portals": _Each({"ip_address": str, "port": object}, {}),
        "node_acls": _ACL,
    },
)
_FILE: _Keys = {
    "storage_objects": _Each({"plugin": str, "name": str}, {"config": str, "size": int, "attributes": dict}),
    "targets": _Each({"wwn": str}, {"fabric": str, "tpgs": _GROUP}),
    "fabric_modules": _Each({}, {}),
}

_WORDS = {str: "a text", int: "a number", dict: "an object", list: "a list"}


def fault(config: dict[str, Any]) -> str | None:
    """The first fault in words, with its place; None if there is none."""
    return _fault_of_object(config, {}, _FILE, "")


def _fault_of_object(value: Any, required: _Keys, optional: _Keys, place: str) -> str | None:
    if not isinstance(value, dict):
        return _other_than(dict, value, place)
    for key in required:
        if key not in value:
            return f"{place} has no {key}"
    for key, shape in (required | optional).items():
        found = _fault_of_value(value[key], shape, f"{place}.{key}".lstrip(".")) if key in value else None
        if found:
            return found
    return None


def _fault_of_value(value: Any, shape: Any, place: str) -> str | None:
    if isinstance(shape, _Each):
        if not isinstance(value, list):
            return _other_than(list, value, place)
        faults = (
            _fault_of_object(entry, shape.required, shape.optional, f"{place}[{number}]")
            for number, entry in enumerate(value)
        )
        return next(filter(None, faults), None)
    if shape is _PATH:
        return (
            None
            if isinstance(value, str) and _PATH.fullmatch(value)
            else (f"{place} is {_shown(value)}, not /backstores/PLUGIN/NAME")
        )
    return None if isinstance(value, shape) else _other_than(shape, value, place)


def _other_than(wanted: type, value: Any, place: str) -> str:
    return f"{place} is {_shown(value)}, not {_WORDS[wanted]}"


def _shown(value: Any) -> str:
    """Objects and lists by their kind: secrets may be in them."""
    if isinstance(value, dict | list):
        return _WORDS[type(value)]
    text = json.dumps(value)
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}..."
