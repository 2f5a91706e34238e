"""Serving engines: their profiles, speculative decoding, prefix caches."""

from __future__ import annotations

from itertools import accumulate, pairwise
from operator import mul
from typing import Any

from roofline.numbers.operations import Real, comparable
from roofline.specs.gpu import Gpu
from roofline.specs.names import Bytes, Seconds, Share
from roofline.specs.sessions import Sessions
from roofline.support.records import NamedTuple, dataclass, replace

# Serving engine profiles.

#: Parts of a layer that an engine may run beside others.
SHARED_EXPERTS = "shared experts"
OVERLAPS = (SHARED_EXPERTS,)

#: Settings whose default may depend on the GPU.
BY_GPU = ("max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization")


@dataclass(frozen=True, slots=True)
class KernelOverride:
    """How an engine's kernels differ from the calibrated ones."""

    kind: str  # of kernel
    dtype: str | None = None  # key of its calibration; None: all of them
    generation: str | None = None  # of the GPU; None: all of them
    peak: str | None = None  # dtype of the units that multiply, if not the tensor cores
    eta_c: Share | None = None  # share of that peak; None: the calibration's
    compute: Real = 1.0  # factor on eta_c and eta_x
    memory: Real = 1.0  # factor on eta_m
    start: Seconds = 0.0  # beyond t0
    before: str = ""  # first version that it does not hold for; empty: it holds for all
    note: str = ""  # for readers of any figure that it changes


@dataclass(frozen=True, slots=True)
class GpuDefault:
    """Default of a setting on some GPUs."""

    value: int | float
    memory: Bytes = 0.0  # of a GPU, from which on it holds
    other_than: tuple[str, ...] = ()  # parts of the names of GPUs that it does not hold for
    before: str = ""  # first version of the engine that it does not hold for; empty: it holds for all

    def holds_for(self, gpu: Gpu) -> bool:
        return gpu.memory >= self.memory and not any(part in gpu.name for part in self.other_than)


#: What an engine's share of the memory is of: all of the card; what is free before it loads the weights; what is free
#: once the weights are there and a pass has run.
OF_ALL, OF_FREE, OF_REST = "all", "free", "rest"


@dataclass(frozen=True, slots=True)
class StartUp:
    """How an engine divides the memory of a GPU when it starts."""

    share_of: str = OF_ALL  # what `gpu_memory_utilization` is a share of
    before: str = ""  # first version that it does not hold for; empty: it holds for all
    driver: Bytes = 0.0  # that the driver keeps of the memory it reports
    context: Bytes = 0.0  # taken before the engine counts: the CUDA context
    fixed: Bytes = 0.0  # workspaces and whatever else does not depend on the case
    linked: Bytes = 0.0  # communication buffers, where tp > 1
    activations: Real = 1.0  # factor on the activations of the token budget
    sampler: Real = 1.0  # copies of the logits in 32 bits, of `max_num_seqs` sequences
    table: Real = 0.0  # copies of the embedding table while the first start compiles
    graph: Bytes = 0.0  # of CUDA graphs of one size, per layer
    counts_graphs: bool = True  # whether the KV cache leaves room for the graphs
    padded_experts: int = 1  # widths of MXFP4 experts are padded to multiples of this
    block: int = 16  # [tokens] of a block of the KV cache
    in_flight: int = 1  # steps that are scheduled together, whose tokens windows keep
    even_groups: bool = False  # tokens are counted as if every group of layers kept whole sequences
    full_windows: bool = False  # windowed layers keep whole sequences
    full_chunks: bool = True  # chunked layers keep whole sequences


@dataclass(frozen=True, slots=True)
class Engine:
    """What a serving engine adds to the kernels: host time, batching limits, kernel overrides."""

    name: str
    request: Seconds = 0.0  # per request, before its prompt is computed on an idle server
    network: Seconds = 0.0  # round trip between client and server
    prefill: Seconds = 0.0  # per prefill pass
    prefill_slowdown: Real = 1.0  # factor on a prompt's steps while others decode
    step: Seconds = 0.0  # per decode step
    layer: Seconds = 0.0  # per layer of a decode step, without CUDA graphs
    sequence: Seconds = 0.0  # per sequence of a decode step
    all_reduce: Seconds = 0.0  # per all-reduce, on top of its calibration
    arrival: Seconds = 0.0  # extra per request, times the square root of the others that decode when it arrives
    handover: Seconds = 0.0  # per request that goes from a prefill to a decode pool, beyond the transfer of its cache
    launch: Seconds = 0.0  # per kernel of a prefill-only pass, without CUDA graphs
    launch_decode: Seconds = 0.0  # per kernel of a decode step, without CUDA graphs
    scheduler: str = "decode first"  # or "prompts first": what a mixed step computes first
    max_num_batched_tokens: int | None = None  # [tokens] per step at most; None: no limit
    max_num_seqs: int | None = None  # [sequences] per data-parallel rank at most; None: by memory
    gpu_memory_utilization: Share = 0.92  # share of the usable memory for weights, activations and KV cache
    max_model_len: int | None = None  # [tokens] of the longest request; None: the model's limit
    reserve: Share = 1.0  # share of the answer that must have memory before a request starts
    full_length_kv: Share = 0.0  # share of a sequence that windowed and chunked layers keep at least, seen or not
    tunings: tuple[KernelOverride, ...] = ()
    overlaps: tuple[str, ...] = ()  # of `OVERLAPS`: run on a second stream, where other kernels hide their start
    sigma_ttft: float | None = None  # of ln(predicted / measured) of whole passes, beyond the kernels' own
    sigma_tpot: float | None = None
    sigma_loaded_ttft: float | None = None  # likewise of TTFT under a load
    fitted_on: tuple[str, ...] = ()  # deployments whose own runs it was fitted to, as `deployment_name` names them
    scatter_ttft: float | None = None  # what remains of the sigma of a prediction there [1]
    scatter_tpot: float | None = None
    runs: str = ""  # engine and version whose kernels it runs, such as vllm@0.19; empty: those of its name
    versions: str = ""  # on which the constants were fitted
    year: str = ""
    stated: tuple[str, ...] = ()  # settings that a question states in place of the profile's
    by_gpu: tuple[tuple[str, tuple[GpuDefault, ...]], ...] = ()  # setting -> its defaults, the first that holds counts
    start_up: tuple[StartUp, ...] = ()  # how it divides the memory when it starts, the first that holds counts

    @property
    def family(self) -> str:
        """Engine whose kernels it runs, where they were timed apart.

        >>> Engine("vllm@0.19").family, Engine("mine", runs="vllm@0.19").family
        ('vllm', 'vllm')
        """
        return (self.runs or self.name).partition("@")[0]

    @property
    def version(self) -> str:
        """Version of these kernels; empty: the newest that was timed."""
        return (self.runs or self.name).partition("@")[2]

    def on(self, gpu: Gpu) -> Engine:
        """The engine as it starts on a GPU: the defaults that depend on the GPU are plain numbers."""
        if not self.by_gpu:
            return self
        settled: dict[str, Any] = {
            name: next(each.value for each in defaults if each.holds_for(gpu)) for name, defaults in self.by_gpu
        }
        return replace(self, by_gpu=(), **settled)


# Speculative decoding: how many of the proposed tokens a decode step keeps.

#: How tokens are proposed without a separate draft model -> explanation.
METHODS = {
    "mtp": "multi-token prediction: a module that was trained with the model",
    "eagle": "a head of one layer over hidden states of the model (EAGLE-3)",
    "ngram": "a search for the last tokens in the text so far (prompt lookup)",
}

#: Most tokens proposed before a step.
MOST_DRAFTS = 32


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Probability that each proposal is kept, given that all before it are.

    >>> Acceptance((0.9, 0.8)).tokens  # 1 + 0.9 + 0.9 * 0.8
    2.62
    """

    rates: tuple[float, ...]  # [1] of the first proposal, the second, ...
    source: str = ""

    @property
    def drafts(self) -> int:
        """Proposed tokens per step [tokens]."""
        return len(self.rates)

    @property
    def kept(self) -> tuple[float, ...]:
        """Probability that at least one, two, ... proposals are kept [1]."""
        return tuple(accumulate(self.rates, mul))

    @property
    def tokens(self) -> float:
        r"""Mean tokens per step: the kept proposals and the one that the step itself gives.

        .. math:: \tau = 1 + \sum_{k=1}^{g} \prod_{j \le k} a_j

        Returns:
            Tokens [tokens].

        Source:
            Leviathan et al., arXiv:2211.17192, section 3.1; with equal rates a it is (1 - a^(g+1)) / (1 - a).
        """
        return 1.0 + sum(self.kept)

    @property
    def variance(self) -> float:
        """Variance of the tokens per step, for independent steps [tokens^2]."""
        square = 1.0 + sum((2 * place + 3) * share for place, share in enumerate(self.kept))
        return square - self.tokens**2

    def of(self, drafts: int) -> Acceptance:
        """The same for fewer proposals, or for more that are accepted like the last one."""
        return Acceptance((self.rates + self.rates[-1:] * drafts)[:drafts], self.source)


class AcceptancePreset(NamedTuple):
    """Published rates; `acceptance` derives them from the published tokens per step."""

    method: str
    tokens: tuple[float, ...]  # per step, with one proposal, two, ...
    meaning: str
    source: str

    @property
    def acceptance(self) -> Acceptance:
        """Rate k is the gain in tokens per step from proposal k over the gain from proposal k - 1."""
        gains = [more - less for less, more in pairwise((1.0, *self.tokens))]
        rates = [gains[0], *(more / less for less, more in pairwise(gains))]
        return Acceptance(tuple(rates), self.source)


#: Name in `--acceptance` -> published acceptance.
PRESETS_OF_ACCEPTANCE = {
    "deepseek-r1-mtp": AcceptancePreset(
        "mtp",
        (1.92, 2.58, 2.82, 2.99, 3.01),
        "tokens per step of DeepSeek-R1 with one to five autoregressive MTP layers, strict verification",
        "https://nvidia.github.io/TensorRT-LLM/blogs/tech_blog/"
        "blog1_Pushing_Latency_Boundaries_Optimizing_DeepSeek-R1_Performance_on_NVIDIA_B200_GPUs.html",
    ),
    "deepseek-v3-mtp": AcceptancePreset(
        "mtp",
        (1.875,),
        "the second token is kept in 85 to 90 % of the steps, by topic; the middle of both",
        "https://arxiv.org/abs/2412.19437",
    ),
}


# A prefix cache: its hit rate, and where it is stored.

#: Where cached prefixes are stored: GPU memory, host memory, local disks, another node.
TIERS = HBM, HOST_MEMORY, NVME, NETWORK_CACHE = "hbm", "host", "nvme", "network"


@comparable
@dataclass(frozen=True, slots=True, eq=False)
class PromptCache:
    """A cache of prefixes, all of one length."""

    hit: Real | None = None  # share of requests that hit [1]; None: by the working set, else all
    tier: str = HBM
    bandwidth: Real | None = None  # [B/s] to one GPU; None: of its link to the tier
    size: float | None = None  # [B] per replica
    working_set: float | None = None  # [B] of all prefixes in demand
    zipf: float | None = None  # exponent of their popularity; None: uniform
    turns: Sessions | None = None  # whose contexts are the prefixes; of these, `hit` is of the later turns
    loaded: Real | None = None  # share of the later turns that load theirs from the tier [1]; None: not found yet
    is_split: bool = False  # replicas keep different prefixes, and each request goes to the one that keeps its own
