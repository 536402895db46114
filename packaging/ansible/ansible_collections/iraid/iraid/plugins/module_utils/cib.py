"""What Pacemaker has of iraid: read from the cluster's configuration (CIB), an XML text.  Nothing is changed here."""

import os
import xml.etree.ElementTree as ElementTree

# What the node would start with.  It counts while Pacemaker is down: its volumes are still its own.
KEPT = "/var/lib/pacemaker/cib/cib.xml"


def read(module):
    """The CIB's text; None where there is no cluster.  Raises ValueError if there is one, and it can't be read.
    As Pacemaker's own tools, it takes the file CIB_file of the environment instead of the cluster.
    """
    chosen = os.environ.get("CIB_file")
    program = None if chosen else module.get_bin_path("cibadmin", opt_dirs=["/usr/sbin"])
    said = ""
    if program:
        status, out, said = module.run_command([program, "--query"])
        if status == 0:
            return out
    kept = chosen or KEPT
    try:
        with open(kept, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(
            f"whether Pacemaker has a volume can't be read: {kept}: {error.strerror}; cibadmin --query: {said.strip()}; "
            "run this as root (become)"
        ) from error


def volumes(text):
    """{name of the volume: id of what is moved, its clone or the resource itself} of all ocf:iraid:volume."""
    if text is None:
        return {}
    found = {}
    for resources in ElementTree.fromstring(text).iter("resources"):
        for parent in resources.iter():
            for primitive in parent.findall("primitive"):
                name = _volume_of(primitive)
                if name:
                    found[name] = parent.get("id") if parent.tag in ("clone", "master") else primitive.get("id")
    return found


def _volume_of(primitive):
    if (primitive.get("class"), primitive.get("provider"), primitive.get("type")) != ("ocf", "iraid", "volume"):
        return None
    for pair in primitive.iterfind("instance_attributes/nvpair"):
        if pair.get("name") == "volume":
            return pair.get("value")
    return None
