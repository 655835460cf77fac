"""A manager whose other end the test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from unit.tokenizer.fake_scheduler import ByteTokenizer, FakeSystem


@pytest.fixture
async def system() -> AsyncIterator[FakeSystem]:
    fake = FakeSystem(ByteTokenizer())
    yield fake
    fake.close()
