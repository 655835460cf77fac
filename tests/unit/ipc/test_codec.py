"""Records survive the trip; anything else is a typed error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang.ipc import messages as m
from sglang.ipc.codec import RECORDS, WireError, decode, encode
from sglang.ipc.sampling_params import SamplingParams
from sglang.ipc.tensor_buffer import TensorBuffer

REQUEST = m.TokenizedGenerateReqInput(
    rid="é-1",
    input_ids=[0, 49151],
    sampling_params=SamplingParams(logit_bias={3: float("-inf")}, stop=["\n\n"], max_new_tokens=None),
    seed=2**63 - 1,
    stop_special_ids={2: "<|im_end|>"},
)


def test_a_request_survives_with_its_integer_keys() -> None:
    back = decode(encode(REQUEST))
    assert back == REQUEST
    assert isinstance(back, m.TokenizedGenerateReqInput)
    assert back.sampling_params.logit_bias == {3: float("-inf")}
    assert back.stop_special_ids == {2: "<|im_end|>"}


def test_an_output_batch_survives_with_logprobs_that_have_no_value() -> None:
    delta = m.LogprobDelta(input_val=[None, -0.5], input_idx=[1, 2], input_top_val=[None, [-0.5]])
    batch = m.BatchTokenIDOutput(
        rids=["a", "b"],
        finished_reasons=[None, {"type": "stop", "matched": 2}],
        output_ids=[[5], [2]],
        prompt_tokens=[2, 1],
        completion_tokens=[1, 1],
        cached_tokens=[0, 0],
        retraction_counts=[0, 0],
        logprobs=[delta, None],
        opened=[m.DecodeSpec(rid="a", stop=["x"])],
    )
    assert decode(encode(batch)) == batch


def test_every_record_is_known_and_the_bases_are_not() -> None:
    names = {record.__name__ for record in RECORDS}
    assert {"TokenizedGenerateReqInput", "BatchStrOutput", "AbortReq", "ProcessReady", "FlushCacheReqOutput"} <= names
    assert not {"Message", "ControlReq", "LogprobDelta"} & names


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x80",
        b"\x91" * 100_000,
        b"\x81\xa4type\xa4Nope",
        b"\x81\xa4type\xa2\xff\xff",
        encode(REQUEST)[:-1],
        encode(REQUEST) + b"\x00",
    ],
)
def test_garbage_is_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        decode(data)
    except WireError:
        pass


@given(st.integers(0, 200), st.binary(min_size=1, max_size=3))
def test_damaged_records_raise_nothing_else(position: int, noise: bytes) -> None:
    data = bytearray(encode(REQUEST))
    data[position : position + len(noise)] = noise
    try:
        decode(bytes(data))
    except WireError:
        pass


def test_a_wrong_field_type_is_a_wire_error() -> None:
    with pytest.raises(WireError, match="rid"):
        decode(encode(m.AbortReq(rid=5)))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|u1", "<f2"])
def test_tensors_travel_as_raw_bytes(dtype: str) -> None:
    array = np.arange(6).astype(dtype).reshape(2, 3).T  # not contiguous
    packed = TensorBuffer.pack(array)
    assert (packed.dtype, packed.shape, len(packed.data)) == (dtype, (3, 2), 6 * array.itemsize)
    np.testing.assert_array_equal(packed.unpack(), array)


@pytest.mark.parametrize(
    "broken",
    [
        TensorBuffer(b"1234567", "<f4", (2,)),
        TensorBuffer(b"12345678", "<f4", (3,)),
        TensorBuffer(b"12345678", "no dtype", (2,)),
        TensorBuffer(b"12345678", "|O", (1,)),
    ],
)
def test_a_tensor_that_does_not_fit_together_is_a_wire_error(broken: TensorBuffer) -> None:
    with pytest.raises(WireError):
        broken.unpack()


def test_arrays_of_objects_do_not_travel() -> None:
    with pytest.raises(TypeError, match="numeric"):
        TensorBuffer.pack(np.array([{}], dtype=object))
