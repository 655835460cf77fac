"""/v1/files over a temporary folder."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sglang.api.openai.batch import file_store

URL = "/v1/files"
DATA = b'{"a": 1}\n'


@pytest.fixture
async def client(make_client: Any, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(file_storage_path=str(tmp_path / "store")) as made:
        yield made
        made.app.state.storage.close()


async def upload(client: httpx.AsyncClient, data: bytes = DATA, name: str = "in.jsonl", **fields: str) -> Any:
    form = {"purpose": "batch", **fields}
    return await client.post(URL, data=form, files={"file": (name, data)})


async def made(client: httpx.AsyncClient, *args: Any, **fields: str) -> dict[str, Any]:
    response = await upload(client, *args, **fields)
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


def error(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["error"]["message"])


async def test_upload_read_and_delete(client: httpx.AsyncClient) -> None:
    file = await made(client)
    assert file["id"].startswith("file-")
    assert {key: file[key] for key in ("object", "bytes", "filename", "purpose", "status")} == {
        "object": "file", "bytes": len(DATA), "filename": "in.jsonl", "purpose": "batch", "status": "processed",
    }  # fmt: skip
    assert file["expires_at"] - file["created_at"] == 30 * 24 * 3600
    path = f"{URL}/{file['id']}"
    assert (await client.get(path)).json() == file
    content = await client.get(f"{path}/content")
    assert content.content == DATA
    assert content.headers["content-disposition"].startswith("attachment")
    assert (await client.delete(path)).json() == {"id": file["id"], "object": "file", "deleted": True}
    for response in (await client.get(path), await client.get(f"{path}/content"), await client.delete(path)):
        error(response, 404)


async def test_names_never_become_paths(client: httpx.AsyncClient, tmp_path: Path) -> None:
    for name in ("../../evil", "/etc/passwd", "a/b\\c", "..", "x" * 500):
        file = await made(client, DATA, name)
        assert "/" not in file["filename"]
        assert len(file["filename"]) <= 255
    (tmp_path / "secret.json").write_text("{}")
    for name in ("..%2Fsecret", "../secret", "file-..", "file-" + "0" * 32):
        assert (await client.get(f"{URL}/{name}/content")).status_code == 404
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.json", "store"]


async def test_lists_are_ordered_filtered_and_paged(client: httpx.AsyncClient) -> None:
    names = [(await made(client, purpose=purpose))["id"] for purpose in ("batch", "user_data", "batch")]

    async def listed(**query: Any) -> list[str]:
        body = (await client.get(URL, params=query)).json()
        assert body["object"] == "list"
        return [file["id"] for file in body["data"]]

    assert await listed() == names[::-1]
    assert await listed(order="asc") == names
    assert await listed(purpose="batch", order="asc") == [names[0], names[2]]
    assert await listed(order="asc", limit=1) == names[:1]
    assert await listed(order="asc", limit=1, after=names[0]) == names[1:2]
    body = (await client.get(URL, params={"limit": 2, "order": "asc"})).json()
    assert (body["has_more"], body["first_id"], body["last_id"]) == (True, names[0], names[1])
    assert (await client.get(URL, params={"after": names[0]})).json()["has_more"] is False


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "x"}, {"limit": "10001"}, {"order": "up"}, {"after": "file-x"}]
)
async def test_bad_queries_are_refused(client: httpx.AsyncClient, query: dict[str, str]) -> None:
    response = await client.get(URL, params=query)
    assert next(iter(query)) in error(response, 400)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"purpose": "nonsense"}, "purpose"),
        ({"expires_after[seconds]": "5"}, "expires_after"),
        ({"expires_after[seconds]": "-5"}, "expires_after"),
        ({"expires_after[seconds]": "9" * 50}, "expires_after"),
    ],
)
async def test_bad_fields_are_refused(client: httpx.AsyncClient, fields: dict[str, str], words: str) -> None:
    assert words in error(await upload(client, **fields), 400)


async def test_bodies_that_are_no_upload_are_refused(client: httpx.AsyncClient) -> None:
    multipart = {"content-type": "multipart/form-data; boundary=x"}
    for content, headers in (
        (b"{}", {"content-type": "application/json"}),
        (b"", {}),
        (b"purpose=batch", {"content-type": "application/x-www-form-urlencoded"}),
        (b"nonsense", multipart),
        (b"nonsense", {"content-type": "multipart/form-data"}),
        (b'--x\r\ncontent-disposition: form-data; name="file"\r\n\r\ntext\r\n--x--\r\n', multipart),
    ):
        assert error(await client.post(URL, content=content, headers=headers), 400)
    many = [("file", ("a", DATA)), ("file", ("b", DATA))]
    assert error(await client.post(URL, data={"purpose": "batch"}, files=many), 400)


async def test_life_can_be_chosen_and_ends(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    life = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    file = await made(client, **life)
    assert file["expires_at"] - file["created_at"] == 3600
    forever = await made(client, purpose="user_data")
    assert forever["expires_at"] is None
    monkeypatch.setattr(file_store.time, "time", lambda: file["expires_at"])
    error(await client.get(f"{URL}/{file['id']}"), 404)
    assert [f["id"] for f in (await client.get(URL)).json()["data"]] == [forever["id"]]


async def test_files_survive_a_restart(client: httpx.AsyncClient, make_client: Any, tmp_path: Path) -> None:
    file = await made(client)
    store = tmp_path / "store"
    with pytest.raises(ValueError, match="another server"):
        make_client(file_storage_path=str(store))
    client.app.state.storage.close()
    (store / "files" / "file-broken.json").write_text("{")
    other = (store / "files" / f"{file['id']}.json").read_text()
    (store / "files" / "odd.json").write_text(json.dumps({**json.loads(other), "id": "../../x"}))
    async with make_client(file_storage_path=str(store)) as again:
        assert [f["id"] for f in (await again.get(URL)).json()["data"]] == [file["id"]]
        assert (await again.get(f"{URL}/{file['id']}/content")).content == DATA
        again.app.state.storage.close()


async def test_room_is_bounded(client: httpx.AsyncClient) -> None:
    files = client.app.state.storage.files
    files._max_bytes = len(DATA) + 1
    await made(client)
    assert "don't fit" in error(await upload(client), 400)
    files._max_bytes, files._max_files = 10**9, 1
    assert "limit" in error(await upload(client), 400)


def test_a_folder_that_can_not_be_used_is_named(make_client: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="--file-storage-path"):
        make_client(file_storage_path=str(tmp_path / "file"))


async def test_off_without_the_flag(make_client: Any) -> None:
    async with make_client() as client:
        for method, path in (("GET", URL), ("POST", URL), ("GET", f"{URL}/file-1"), ("GET", "/v1/batches")):
            assert "--file-storage-path" in error(await client.request(method, path), 404)


async def test_pages_of_other_origins_see_no_files_unless_a_key_protects_them(
    client: httpx.AsyncClient, make_client: Any, tmp_path: Path
) -> None:
    foreign = {"Origin": "http://evil.example"}
    for path in (URL, "/v1/batches"):
        assert "origin" in error(await client.get(path, headers=foreign), 403)
    async with make_client(file_storage_path=str(tmp_path / "other"), api_key="k") as keyed:
        headers = {**foreign, "Authorization": "Bearer k"}
        assert (await keyed.get(URL, headers=headers)).status_code == 200
        keyed.app.state.storage.close()
