"""Old address of the sampling parameters."""

from sglang.ipc.sampling_params import SamplingParams as SamplingParams
