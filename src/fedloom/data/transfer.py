"""One file over HTTP: resumed where it broke off, retried, with progress. Whether the bytes are right others judge."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import pooch
import requests
from tqdm import tqdm

RETRIED_STATUS = (408, 429, 500, 502, 503, 504)


class TransferError(Exception):
    """A transfer that failed for good; the message is one line without the address."""


def transfer(url: str, part: Path, attempts: int = 4, pause: float = 1.0, timeout: float = 60.0) -> None:
    """Bring the body of ``url`` to ``part``, going on from what ``part`` holds already.

    A broken connection, a short body and the statuses in ``RETRIED_STATUS`` are tried again after ``pause`` seconds,
    twice as long each time. Raises TransferError when no attempt is left or the server refuses; ``part`` then keeps
    what did arrive.
    """
    for attempt in range(1, attempts + 1):
        try:
            _receive(url, part, timeout)
            return
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if status == 416:  # the range starts behind the end: all of it had arrived, or the file has changed
                return
            problem, final = f"status {status}", status not in RETRIED_STATUS
        except requests.RequestException as error:
            problem, final = _first_line(error), False
        if final or attempt == attempts:
            raise TransferError(problem if final else f"{problem} (attempt {attempt} of {attempts})")
        print(f"{url}: {problem}; attempt {attempt + 1} of {attempts} follows", file=sys.stderr, flush=True)
        time.sleep(pause * 2 ** (attempt - 1))


def _receive(url: str, part: Path, timeout: float) -> None:
    have = part.stat().st_size if part.exists() else 0
    with open(part, "ab") as handle:
        # Bodies that the server compresses for the transfer can neither be resumed nor measured.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        expected = _Expected(handle)
        download = pooch.HTTPDownloader(
            progressbar=_progress(part.name), timeout=timeout, headers=headers, hooks={"response": expected}
        )
        download(url, handle, None)
    found = part.stat().st_size
    if expected.bytes is not None and found < expected.bytes:
        raise requests.ConnectionError(f"expected {expected.bytes} bytes, found {found}")


class _Expected:
    """Reads off a response how long the file will be, and starts it anew where the server ignored the range."""

    def __init__(self, handle: BinaryIO) -> None:
        self.handle = handle
        self.bytes: int | None = None

    def __call__(self, response: requests.Response, *_: Any, **__: Any) -> None:
        if response.status_code == 200:
            self.handle.truncate(0)
        length = response.headers.get("Content-Length")
        if response.status_code in (200, 206) and length is not None:
            self.bytes = self.handle.seek(0, 2) + int(length)


def _progress(name: str) -> Any:
    if not sys.stderr.isatty():
        return _Lines(name)
    # pooch asks for the bar's truth, which tqdm refuses while it has no total.
    return tqdm(desc=name, total=1, unit="B", unit_scale=True, leave=False)


class _Lines:
    """Progress for a log: a plain line every few seconds, with the interface of a tqdm bar."""

    every = 5.0

    def __init__(self, name: str) -> None:
        self.name, self.total, self.done, self.last = name, 0, 0, time.monotonic()

    def update(self, count: int) -> None:
        self.done += count
        if time.monotonic() - self.last >= self.every:
            self.last = time.monotonic()
            total = f" of {self.total / 1e6:.1f}" if self.total else ""
            print(f"{self.name}: {self.done / 1e6:.1f}{total} MB", file=sys.stderr, flush=True)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing to close."""


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
