"""The iraid command as modules run it: one JSON object comes back, or a Failure with its own words."""

import json


class Failure(Exception):
    def __init__(self, words, message, remedy="", kind="internal"):
        super().__init__(message)
        self.kind = kind
        shown = " ".join(words)
        remedy = f"; remedy: {remedy}" if remedy else ""
        self.text = f"iraid {shown}: {message}{remedy}"


class Absent(Exception):
    """The command is not installed."""


class Iraid:
    """program: path, or a list of words, of the iraid command.  Secrets never are among its arguments: it is given
    names of files.
    """

    def __init__(self, module, program):
        self.module = module
        self.program = module.get_bin_path(program, opt_dirs=["/usr/sbin", "/usr/local/sbin"])

    def run(self, *words, environment=None):
        if self.program is None:
            raise Absent
        status, out, err = self.module.run_command([self.program, *words, "--json"], environ_update=environment)
        warnings = [line.partition("warning: ")[2] for line in err.splitlines() if line.startswith("iraid: warning: ")]
        try:
            answer = json.loads(out)
        except ValueError:
            said = (err or out).strip() or f"exit status {status}"
            raise Failure(words, said) from None
        if "error" in answer and status != 0:
            error = answer["error"]
            raise Failure(words, error.get("message", ""), error.get("remedy", ""), error.get("type", ""))
        for warning in warnings:
            self.module.warn(f"iraid {words[0]}: {warning}")
        return answer

    def status(self, name):
        """None if there is no such volume."""
        try:
            return self.run("status", name)
        except Failure as failure:
            if failure.kind == "not_found":
                return None
            raise


def run_told(module, run, refused=ValueError, about=""):
    """run(module); what the command, or the plan, has against it is the module's failure.  about: before a refusal's text."""
    try:
        run(module)
    except Failure as failure:
        module.fail_json(msg=failure.text, type=failure.kind)
    except Absent:
        module.fail_json(
            msg=f"the command {module.params['command']} is not on this machine: install iraid "
            "(iraid_packages), or say where it is (iraid_command)"
        )
    except refused as error:
        module.fail_json(msg=f"{about}{error}")
