"""Flags: which request runs when."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.args.declare import flag, ignored

POLICIES = ["lpm", "random", "fcfs", "dfs-weight", "lof", "priority", "routing-key", "hrrn", "shortest-prefill-first"]


@dataclass(init=False, repr=False, eq=False)
class SchedulingArgs:
    """Scheduling."""

    max_running_requests: int | None = flag(None, "requests that decode together; default: by the pool")
    max_queued_requests: int | None = flag(None, "requests that may wait; more are answered 503")
    chunked_prefill_size: int | None = flag(None, "prompt tokens of one pass; -1: whole prompts", suffix=True)
    enable_dynamic_chunking: bool = ignored(False, "adapt the chunk to the load")
    max_prefill_tokens: int = flag(16384, "prompt tokens of one prefill batch", suffix=True)
    prefill_max_requests: int | None = flag(None, "requests of one prefill batch")
    schedule_policy: str = flag("fcfs", "order of the waiting queue", choices=POLICIES)
    enable_priority_scheduling: bool = flag(False, "requests with a larger priority go first")
    disable_priority_preemption: bool = flag(False, "priorities order the queue, but never stop a running request")
    default_priority_value: int | None = flag(None, "priority of requests that name none")
    abort_on_priority_when_disabled: bool = flag(False, "answer 503 to a priority when priorities are off")
    schedule_low_priority_values_first: bool = flag(False, "smaller priority values go first")
    priority_scheduling_preemption_threshold: int = flag(10, "priority gap that stops a running request")
    retraction_policy: str = flag("length", "who gives way when memory runs out", choices=["length", "priority"])
    schedule_conservativeness: float = flag(1.0, "above 1: admit fewer requests, retract fewer")
    disable_overlap_schedule: bool = ignored(
        False, "results before the next step (as this server does)", harmless=[True]
    )
    enable_mixed_chunk: bool = flag(False, "prompt chunks and decoding share a step")
    num_continuous_decode_steps: int = ignored(1, "decode steps between two looks at the queue")
    scheduler_recv_interval: int = ignored(1, "steps between two looks at the inbox")
    prefill_decode_interval: int = ignored(0, "decode steps between two prefills")
    prefill_decode_interval_min_bs: int = ignored(0, "batch from which that holds")
    min_free_slots_delay: int | None = ignored(None, "free rows to wait for")
    enable_prefill_delayer: bool = ignored(False, "delay prefills to gather more")
    prefill_delayer_max_delay_passes: int = ignored(30, "passes a prefill may wait")
    prefill_delayer_max_delay_ms: int | None = ignored(None, "milliseconds a prefill may wait")
    prefill_delayer_token_usage_low_watermark: float | None = ignored(None, "pool use below which none waits")
    prefill_delayer_queue_min_ratio: float | None = ignored(None, "queue share to wait for")
