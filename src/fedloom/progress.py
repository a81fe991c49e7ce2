"""Progress of long work: a bar on a terminal, a plain line every few seconds in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 5.0


class PointProgress:
    """Reports points read; call it with (points, share of the file)."""

    def __init__(self) -> None:
        self._began = self._line = time.monotonic()

    def __call__(self, points: int, share: float) -> None:
        """Show that ``points`` were read, which took the share ``share`` of the file."""
        now = time.monotonic()
        if share >= 1 or now - self._line >= SECONDS_BETWEEN_LINES:
            self._line = now
            rate = points / max(now - self._began, 1e-3) / 1e6
            print(f"{points:,} points, {share:.0%} of the file, {rate:.2f} million/s", file=sys.stderr, flush=True)


class RoundProgress:
    """Reports rounds done; call it with (done, total, text)."""

    def __init__(self) -> None:
        self._bar: tqdm | None = None
        self._line = -SECONDS_BETWEEN_LINES  # the first round is told at once

    def __enter__(self) -> RoundProgress:
        return self

    def __call__(self, done: int, total: int, text: str) -> None:
        """Show that ``done`` of ``total`` rounds are over."""
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(total=total, unit="round", file=sys.stderr)
            self._bar.n = done
            self._bar.set_postfix_str(text)
        elif done == total or time.monotonic() - self._line >= SECONDS_BETWEEN_LINES:
            self._line = time.monotonic()
            print(f"round {done} of {total}: {text}", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
