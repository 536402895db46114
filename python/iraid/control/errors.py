"""One kind of error for everything that fails: what happened, and what to do about it."""


class IraidError(Exception):
    """The operation failed (exit status 1).

    kind is a word of docs/design/control.md ("not_found", "busy", ...) or one of this side:
    "unavailable" (no handler to talk to), "permission", "answer" (it makes no sense), "kernel".
    """

    exit_status = 1

    def __init__(self, message: str, remedy: str = "", kind: str = "internal") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.kind = kind

    def to_json(self) -> dict[str, str]:
        return {"type": self.kind, "message": self.message, "remedy": self.remedy}


class UsageFault(IraidError):
    """What was typed can't be (exit status 2)."""

    exit_status = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy, kind="usage")
