"""What --diff shows of lists: one line for each, for Ansible compares texts."""


def diff(before, after):
    return {"before": "".join(f"{one}\n" for one in before), "after": "".join(f"{one}\n" for one in after)}
