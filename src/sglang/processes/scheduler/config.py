"""The slice of the server's settings that scheduling decisions depend on."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.env import Env
from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs

DEFAULT_MAX_RUNNING = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Everything :class:`~sglang.processes.scheduler.core.SchedulerCore` needs to know. Lengths are in tokens."""

    num_slots: int
    context_length: int
    page_size: int = 1
    max_running_requests: int = DEFAULT_MAX_RUNNING
    max_queued_requests: int | None = None
    max_prefill_tokens: int = 16384
    """Prompt tokens of one prefill pass; never below the context length."""
    prefill_max_requests: int | None = None
    chunked_prefill_size: int | None = None
    """None: a prompt is prefilled in one pass."""
    enable_mixed_chunk: bool = False
    prompt_share: float | None = None
    """Prompt tokens that a step may compute beside the running requests, as a share of their number; the rest of the
    prompts waits for the next steps, so that nobody's tokens stall. None: a prefill pass takes what it may, and
    unless ``enable_mixed_chunk`` is set the running requests wait for it."""
    policy: str = "fcfs"
    enable_priority_scheduling: bool = False
    enable_priority_preemption: bool = True
    default_priority: int | None = None
    abort_on_priority_when_disabled: bool = False
    low_priority_first: bool = False
    preemption_threshold: int = 10
    retraction_policy: str = "length"
    enable_prefix_cache: bool = True
    eviction_policy: str = "lru"
    stream_interval: int = 1
    silent_interval: int = 50
    """Tokens between two outputs of a request that doesn't stream."""
    eos_token_ids: frozenset[int] = frozenset()
    init_new_token_ratio: float = 0.7
    """Share of the token budget that a running request is expected to use; a guess that decays to the minimum."""
    min_new_token_ratio: float = 0.098
    new_token_ratio_decay: float = 0.001
    """Taken off at every decode step."""
    retract_decode_steps: int = 20
    max_new_tokens_estimate: int = 4096
    """A request's remaining token budget counts at most this much when memory is planned."""
    waiting_timeout: float | None = None
    """Seconds in the queue; None = no limit."""
    running_timeout: float | None = None
    stats_interval: int = 40
    """Decode steps between two throughput readings."""

    def __post_init__(self) -> None:
        if self.num_slots < self.page_size:
            raise ValueError(
                f"the KV pool has {self.num_slots} slots, less than one page of {self.page_size}; "
                "raise --max-total-tokens or --mem-fraction-static, or lower --page-size"
            )
        if self.chunked_prefill_size is not None and self.chunked_prefill_size < 1:
            raise ValueError(f"chunked_prefill_size must be positive or None, got {self.chunked_prefill_size}")

    @property
    def mixes(self) -> bool:
        """Whether prompts are computed in the steps of the running requests."""
        return self.enable_mixed_chunk or self.prompt_share is not None

    @property
    def has_timeouts(self) -> bool:
        return self.waiting_timeout is not None or self.running_timeout is not None

    @property
    def capacity(self) -> int:
        """Tokens that fit into the pool: whole pages only."""
        return self.num_slots - self.num_slots % self.page_size

    @property
    def max_req_len(self) -> int:
        """Longest prompt + output that one request can reach."""
        return min(self.context_length, self.capacity + 1)  # the last token is never written to the pool

    @property
    def max_req_input_len(self) -> int:
        return self.max_req_len - 1


def scheduler_config(args: ServerArgs, env: Env, model: ModelConfig, num_slots: int) -> SchedulerConfig:
    """Settings from the server's (resolved) flags, the environment, the model and the size of the KV pool."""
    init_ratio = min(env.init_new_token_ratio * args.schedule_conservativeness, 1.0)
    min_ratio = init_ratio * env.min_new_token_ratio_factor
    chunk = args.chunked_prefill_size
    max_running = args.max_running_requests or min(DEFAULT_MAX_RUNNING, num_slots // args.page_size)
    return SchedulerConfig(
        num_slots=num_slots,
        context_length=model.context_length,
        page_size=args.page_size,
        max_running_requests=max(1, max_running),
        max_queued_requests=args.max_queued_requests,
        max_prefill_tokens=max(args.max_prefill_tokens, model.context_length),
        prefill_max_requests=args.prefill_max_requests,
        chunked_prefill_size=chunk if chunk is not None and chunk > 0 else None,
        enable_mixed_chunk=args.enable_mixed_chunk,
        prompt_share=env.prompt_share if env.prompt_share > 0 and not args.enable_mixed_chunk else None,
        policy=args.schedule_policy,
        enable_priority_scheduling=args.enable_priority_scheduling or args.schedule_policy == "priority",
        enable_priority_preemption=not args.disable_priority_preemption,
        default_priority=args.default_priority_value,
        abort_on_priority_when_disabled=args.abort_on_priority_when_disabled,
        low_priority_first=args.schedule_low_priority_values_first,
        preemption_threshold=args.priority_scheduling_preemption_threshold,
        retraction_policy=args.retraction_policy,
        enable_prefix_cache=not args.disable_radix_cache,
        eviction_policy=args.radix_eviction_policy,
        stream_interval=max(1, args.stream_interval),
        silent_interval=max(1, env.force_stream_interval),
        eos_token_ids=frozenset(model.eos_token_ids),
        init_new_token_ratio=init_ratio,
        min_new_token_ratio=min_ratio,
        new_token_ratio_decay=(init_ratio - min_ratio) / max(1, env.new_token_ratio_decay_steps),
        retract_decode_steps=env.retract_decode_steps,
        max_new_tokens_estimate=env.clip_max_new_tokens_estimation,
        waiting_timeout=env.req_waiting_timeout if env.req_waiting_timeout > 0 else None,
        running_timeout=env.req_running_timeout if env.req_running_timeout > 0 else None,
        stats_interval=max(1, args.decode_log_interval),
    )
