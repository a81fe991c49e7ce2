"""Fetching: whatever a server sends, only accepted bytes land, and what went wrong is said in one line."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fedloom.data.download import fetch
from fedloom.data.lock import pin
from fedloom.data.raw import RawFolder
from fedloom.data.sources import Form, RawFile, Wheel
from fedloom.errors import InputError

BODY = b"timestamp,a\n" + b"".join(b"2024-01-01 00:%02d,%d\n" % (i % 60, i) for i in range(20_000))
PAGE = b"<!DOCTYPE html><html><body>Confirm the download</body></html>"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves each path in the way its name says, and keeps the ranges it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        visits = [path for path, _ in self.server.asked].count(self.path)
        kind = self.path.strip("/")
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and kind != "no-ranges" else 0
        if kind == "gone":
            return self.send_error(404)
        if kind == "busy" and visits == 1:
            return self.send_error(503)
        body = {"page": PAGE, "wrong": BODY[::-1]}.get(kind, BODY)
        rest = body[start:]
        if not rest:
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        broken = kind == "short" or (kind in ("reset", "no-ranges") and visits == 1)
        self.wfile.write(rest[: len(rest) // 2] if broken else rest)
        return None

    def log_message(self, *_: object) -> None:
        """Keep the test output quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def from_urls(*urls: str, sha256: str | None = digest(BODY), form: str = "csv") -> RawFile:
    return RawFile((Form(form, sha256, urls=urls),))


def run(file: RawFile, tmp_path: Path, **more: object) -> Path:
    out = tmp_path / "raw" / "values"
    fetch(file, "toy/values", out, tmp_path / "lock.json", pause=0.01, **more)  # type: ignore[arg-type]
    return out


def left_behind(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "raw").iterdir() if path.suffix != ".part"}


def test_a_good_file_lands_with_a_note_of_what_it_is(server: Server, tmp_path: Path) -> None:
    out = run(from_urls(server.url("values.csv")), tmp_path)
    assert out.read_bytes() == BODY
    note = json.loads((tmp_path / "raw" / "values.json").read_text())
    assert note == {"form": "csv", "sha256": digest(BODY), "source": "url", "name": "values.csv"}
    assert left_behind(tmp_path) == {"values", "values.json"}


def test_a_connection_reset_half_way_is_resumed_where_it_broke(server: Server, tmp_path: Path) -> None:
    assert run(from_urls(server.url("reset")), tmp_path).read_bytes() == BODY
    (_, first), (_, second) = server.asked
    assert first is None
    assert second is not None
    assert len(BODY) // 2 - 1024 <= int(second[len("bytes=") : -1]) <= len(BODY) // 2


def test_a_server_that_knows_no_ranges_sends_all_again(server: Server, tmp_path: Path) -> None:
    assert run(from_urls(server.url("no-ranges")), tmp_path).read_bytes() == BODY


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    assert run(from_urls(server.url("busy")), tmp_path).read_bytes() == BODY


def test_a_download_that_was_killed_goes_on_in_the_next_run(server: Server, tmp_path: Path) -> None:
    file = from_urls(server.url("short"))
    with pytest.raises(InputError):
        run(file, tmp_path)
    before = len(server.asked)
    with pytest.raises(InputError):
        run(file, tmp_path)
    assert server.asked[before][1] is not None


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("page", "found a web page|\\(expected csv, found a web page\\)"),
        ("wrong", f"expected sha256 {digest(BODY)}, found {digest(BODY[::-1])}"),
        ("gone", "gone: status 404"),
        ("short", "short: .*attempt 4 of 4"),
    ],
)
def test_a_bad_answer_leaves_no_file_and_says_why(path: str, line: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=line) as caught:
        run(from_urls(server.url(path)), tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "raw" / "values").exists()
    assert any(name.endswith(".bad") for name in left_behind(tmp_path)) == (path in ("page", "wrong"))


def test_the_next_address_is_tried_when_one_fails(server: Server, tmp_path: Path) -> None:
    assert run(from_urls(server.url("wrong"), server.url("gone"), server.url("good")), tmp_path).read_bytes() == BODY


def test_the_mirror_comes_before_any_address(server: Server, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    (mirror / "toy").mkdir(parents=True)
    packed = gzip.compress(BODY, mtime=0)
    (mirror / "toy" / "values.csv.gz").write_bytes(packed)
    forms = (
        Form("csv", digest(BODY), urls=(server.url("good"),)),
        Form("csv.gz", digest(packed), mirror="toy/values.csv.gz"),
    )
    run(RawFile(forms), tmp_path, mirror=mirror)
    assert RawFolder(tmp_path / "raw").open("values").form == "csv.gz"
    assert server.asked == []


def test_a_damaged_mirror_file_is_named_and_the_address_serves(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "values.csv").write_bytes(BODY[:-1])
    file = RawFile((Form("csv", digest(BODY), mirror="values.csv", urls=(server.url("good"),)),))
    assert run(file, tmp_path, mirror=tmp_path).read_bytes() == BODY
    assert f"{tmp_path / 'values.csv'}: expected sha256 {digest(BODY)}" in capsys.readouterr().err


def test_a_file_that_only_the_mirror_has_says_where_its_values_came_from(tmp_path: Path) -> None:
    file = RawFile((Form("csv", digest(BODY), mirror="toy/values.csv"),), mirror_only="owner/repository @ 1234abc")
    with pytest.raises(InputError, match=r"no public address is known \(values: owner/repository @ 1234abc\).*toy/val"):
        run(file, tmp_path)


def test_without_a_known_hash_the_first_download_is_pinned(server: Server, tmp_path: Path) -> None:
    run(from_urls(server.url("good"), sha256=None), tmp_path)
    assert json.loads((tmp_path / "lock.json").read_text()) == {"toy/values/csv": digest(BODY)}
    with pytest.raises(InputError, match=f"expected sha256 {digest(BODY)}, found"):
        run(from_urls(server.url("wrong"), sha256=None), tmp_path)


def test_jobs_that_pin_at_once_lose_no_pin(tmp_path: Path) -> None:
    names = [f"toy/{i}/csv" for i in range(16)]
    threads = [threading.Thread(target=pin, args=(tmp_path / "lock.json", name, digest(BODY))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(json.loads((tmp_path / "lock.json").read_text())) == sorted(names)
    assert [path.name for path in tmp_path.iterdir()] == ["lock.json"]


def test_a_log_gets_plain_lines_of_progress(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fedloom.data.transfer._Lines.every", 0.0)
    run(from_urls(server.url("good")), tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"values\.csv\.\w+\.part: 0\.4 of 0\.4 MB", lines[-1])


def test_a_terminal_gets_a_bar(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    run(from_urls(server.url("good")), tmp_path)
    assert "%|" in capsys.readouterr().err


def test_a_web_page_is_never_pinned(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected csv, found a web page"):
        run(from_urls(server.url("page"), sha256=None), tmp_path)
    assert not (tmp_path / "lock.json").exists()


def test_a_byte_flipped_later_is_noticed_when_reading(server: Server, tmp_path: Path) -> None:
    out = run(from_urls(server.url("good")), tmp_path)
    changed = bytearray(out.read_bytes())
    changed[100] ^= 1
    out.write_bytes(changed)
    with pytest.raises(InputError, match=f"values: expected sha256 {digest(BODY)}, found .* values.bad"):
        RawFolder(tmp_path / "raw").open("values")
    assert left_behind(tmp_path) == {"values.bad"}
    assert run(from_urls(server.url("good")), tmp_path).read_bytes() == BODY


def test_a_file_inside_a_wheel_is_unpacked_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel = shelf / "toydata-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toydata/__init__.py", "raise RuntimeError('imported')")
        archive.writestr("toydata/values.csv", BODY)
        archive.writestr("toydata-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toydata\nVersion: 1.0\n")
        archive.writestr(
            "toydata-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("toydata-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    packed = Wheel("toydata", "1.0", digest(wheel.read_bytes()), "toydata/values.csv")
    assert run(RawFile((Form("csv", digest(BODY), wheel=packed),)), tmp_path).read_bytes() == BODY
    other = Wheel("toydata", "1.0", "0" * 64, "toydata/values.csv")
    with pytest.raises(InputError, match=f"toydata-1.0-py3-none-any.whl: expected sha256 {'0' * 64}"):
        run(RawFile((Form("csv", digest(BODY), wheel=other),)), tmp_path)
    whole = Wheel("toydata", "1.0", digest(wheel.read_bytes()))
    (tmp_path / "whole").mkdir()
    assert run(RawFile((Form("whl", wheel=whole),)), tmp_path / "whole").read_bytes() == wheel.read_bytes()
    elsewhere = Wheel("toydata", "1.0", digest(wheel.read_bytes()), platform="win_amd64", python="3.11")
    (tmp_path / "elsewhere").mkdir()
    assert run(RawFile((Form("whl", wheel=elsewhere),)), tmp_path / "elsewhere").read_bytes() == wheel.read_bytes()
