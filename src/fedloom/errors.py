"""Errors that a user can act on, and how a script ends with one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


class InputError(ValueError):
    """Bad input or setting. The message is one line that names file, field, expected and found value."""


def require(holds: bool, where: str, field: str, expected: str, found: str) -> None:
    """Raise InputError with file (or data), field, expected and found value unless ``holds``."""
    if not holds:
        raise InputError(f"{where}: {field}: expected {expected}, found {found}")


def main(run: Callable[[], None]) -> None:
    """Run a script's body; end with exit status 1 and one line on standard error where the user can mend the cause.

    ``InputError`` and ``OSError`` (a full disk, a missing file) are such causes; any other exception is a bug and
    keeps its traceback.
    """
    try:
        run()
    except (InputError, OSError) as error:
        print(f"fedloom: error: {error}", file=sys.stderr, flush=True)
        # A full disk also makes the interpreter's own flush at exit fail, which would replace our status.
        os._exit(1)
