"""How sure an answer is: 80 % intervals, warnings, and the verdict on an SLO."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from roofline.numbers.operations import Real, always, is_nan, largest_of, maximum, minimum, negated, never, where
from roofline.numbers.quantity import KIBI, MILLI, counted
from roofline.physics.equation import Kernel, basis_of
from roofline.physics.passes import Pass, every_kernel
from roofline.physics.plan import Deployment
from roofline.serving.latency import Served, Workload, chunks
from roofline.serving.prompts import is_a_mixture
from roofline.specs.gpu import HOST, KINDS, LOADING, NETWORK, ROUGH, Gpu, KernelKind
from roofline.specs.workload import key_text
from roofline.support.errors import DoesNotFit, NoSteadyState, Overloaded, OverloadedAtTimes
from roofline.support.records import NamedTuple

if TYPE_CHECKING:
    from roofline.serving.load.pools import Pooled


# Whether a case meets its SLO, and how sure that is: pass, pass?, fail? or fail.
#
# The one rule for every command, for scalars and arrays: an unqualified verdict needs figures that were found, kernels
# that were timed, a load inside the validated range, and 80 % ranges clear of every limit. Without timed kernels only
# what misses even at the hardware limit is missed for certain.

#: Verdicts: met or missed for certain, or by the central estimate alone.
PASS, LIKELY, UNLIKELY, FAIL = "pass", "pass?", "fail?", "fail"

#: Reasons: why a verdict is not certain, or why there is none.
IN_RANGE = "the 80 % range includes the limit"
AT_HARDWARE_LIMIT = "times are the hardware limit, which no GPU reaches"
UNKNOWN = "this percentile is not known for this load: its closed form contradicts the mean; see `simulate`"
NOT_TIMED = "an estimate: no kernel of this GPU's generation was timed"
NOT_KERNELS = "an estimate: hardly any kernel of this GPU was timed; scaled to a few runs of its servers"
NOTHING_APPLIES = "no limit applies: an answer of one token has no TPOT"
OUTSIDE = "outside the validated range"
#: For people, where there is no verdict because of that.
DOES_NOT_APPLY, NOT_KNOWN = "does not apply", "not known"

_GAPS_BEYOND = 1.2  # of the share of gaps beyond a percentile: the rate at which p99 jumps was off by less than 8 %


class Limited(NamedTuple):
    """A latency over its limit: central estimate, and the ends of its 80 % range [1]. NaN where it is not known."""

    key: str
    central: Real
    low: Real
    high: Real
    least: Real = 0.0  # at the hardware limit, at least; matters where no kernel was timed
    applies: Real = True  # a limit on TPOT does not, to answers of one token


class Verdict(NamedTuple):
    """The verdict on an SLO; arrays for many cases."""

    word: Any  # PASS, LIKELY, UNLIKELY or FAIL; None where a limited latency is not known, or no limit applies
    reason: Any  # why it is not PASS; None where it is
    binding: Any  # key of the limit that is taken up most; None where none applies

    @property
    def text(self) -> str:
        """The word of a single case, for people."""
        return str(self.word or (DOES_NOT_APPLY if self.binding is None else NOT_KNOWN))


def verdict(
    limited: Sequence[Limited],
    unchecked: Iterable[tuple[Real, str]] = (),
    without_times: Iterable[tuple[Real, str]] = (),
    in_range: Any = IN_RANGE,
    *,
    is_mean: bool = False,
    is_timed: Real = True,
    estimate: Any = NOT_TIMED,
) -> Verdict:
    """The verdict on limits that must hold together.

    Args:
        limited: the limited latencies, also those to which their limit does not apply.
        unchecked: conditions outside what was checked, with words for them.
        without_times: conditions under which there are no times, with words for them.
        in_range: why a verdict is not certain where a range includes its limit.
        is_mean: whether requests differ, so that a limit without a percentile is on their mean.
        is_timed: whether kernels of the GPU's generation were timed.
        estimate: why a verdict is not certain where they were not.

    Returns:
        Word, reason and binding limit, element by element.

    >>> verdict([Limited("ttft", 0.5, 0.4, 0.6), Limited("tpot", 0.9, 0.7, 1.2)])
    Verdict(word='pass?', reason='the 80 % range includes the limit', binding='tpot')
    >>> verdict([Limited("ttft", 0.5, 0.4, 0.6)], is_timed=False).word
    'pass?'
    >>> verdict([Limited("ttft", 0.5, 0.4, 0.6)], [(True, "single-token answers")]).reason
    'outside the validated range: single-token answers'
    >>> verdict([])
    Verdict(word=None, reason='no limit applies: an answer of one token has no TPOT', binding=None)
    """
    if not limited or all(never(each.applies) for each in limited):
        return Verdict(*_without_times(None, NOTHING_APPLIES, without_times), None)
    first = limited[0]
    central: Real = 0.0
    low: Real = 0.0
    high: Real = 0.0
    least: Real = 0.0
    binding: Any = first.key
    is_unknown: Any = False
    applies: Any = False  # whether any limit does
    for each in limited:
        unknown = is_nan(each.central) & each.applies
        is_unknown, applies = is_unknown | unknown, applies | each.applies
        is_left_out = unknown | negated(each.applies)
        shares = (where(is_left_out, 0.0, share) for share in each[1:5])
        each_central, each_low, each_high, each_least = shares
        binding = where(each_central > central, each.key, binding)
        central, low, high = maximum(central, each_central), maximum(low, each_low), maximum(high, each_high)
        least = maximum(least, each_least)
    missed: Any = f"{key_text(first.key, is_mean=is_mean)} exceeds its limit"
    for each in limited[1:]:
        missed = where(binding == each.key, f"{key_text(each.key, is_mean=is_mean)} exceeds its limit", missed)
    word: Any = where(central > 1.0, where(low > 1.0, FAIL, UNLIKELY), where(high > 1.0, LIKELY, PASS))
    reason: Any = where(word == FAIL, missed, where(word == PASS, "", in_range))
    if not always(is_timed):
        is_estimate = negated(is_timed) & ((word == PASS) | ((word == FAIL) & (least <= 1.0)))
        word = where(is_estimate, where(word == PASS, LIKELY, UNLIKELY), word)
        reason = where(is_estimate, estimate, reason)
    for is_outside, text in reversed(list(unchecked)):
        word = where(is_outside, where(central > 1.0, UNLIKELY, LIKELY), word)
        reason = where(is_outside, f"{OUTSIDE}: {text}", reason)
    if not never(is_unknown):
        is_open = is_unknown & (central <= 1.0)
        word, reason = where(is_open, None, word), where(is_open, UNKNOWN, reason)
    if not always(applies):
        word, reason = where(applies, word, None), where(applies, reason, NOTHING_APPLIES)
        binding = where(applies, binding, None)
    word, reason = _without_times(word, reason, without_times)
    return Verdict(word, _absent_as_none(reason), binding)


def unchecked(deployment: Deployment, workload: Workload, under_load: Served | None) -> list[tuple[Real, str]]:
    """Conditions outside what was checked, with words for them."""
    known = [] if is_within(deployment, workload) else [*beyond(deployment, workload)]
    if deployment.plan.splits_context:
        known.append((workload.osl > 0.0, "context parallelism, which no run of the fits had"))
    for is_there, words in (
        (deployment.gpu.power_cap is not None, "a power cap, under which nothing was measured"),
        (deployment.adapters is not None, "adapters, whose kernels nobody timed"),
        (deployment.media is not None, "encoders, which nobody timed as a whole"),
    ):
        if is_there:
            known.append((workload.osl > 0.0, words))
    if under_load is None:
        return known
    from roofline.serving.load.equations import outside

    return [*outside(deployment, workload, under_load), *known]


def unanswered(workload: Workload, under_load: Served | None, fits: Real) -> list[tuple[Real, str]]:
    """Conditions under which a case has no times, with words for them; the last that holds is the reason."""
    conditions: list[tuple[Real, str]] = []
    if under_load is not None:
        is_unstable = negated(under_load.is_stable)
        is_bunched = workload.arrivals is not None
        conditions.append((is_unstable, OverloadedAtTimes.short if is_bunched else NoSteadyState.short))
        if workload.load.is_open:
            over = is_unstable & (under_load.request_rate >= under_load.max_request_rate)
            conditions.append((over, Overloaded.short))
    return [*conditions, (negated(fits), DoesNotFit.short)]


def ends_of_gaps(latency: Callable[[str], Real | None], time: Real, level: float) -> tuple[Real, Real]:
    """Percentiles of ITL [s] where more or fewer gaps lie beyond; the percentile itself where they are not known.

    A percentile jumps where the gaps that prompts stall reach its share, so that no error of a time spans the jump.

    Args:
        latency: percentile [s] by its key.
        time: the percentile [s].
        level: its level [percent].

    >>> ends_of_gaps(lambda key: 0.06 if float(key[5:]) > 99.1 else 0.008, 0.008, 99.0)
    (0.008, 0.06)
    """
    beyond = 100.0 - level
    shares = min(_GAPS_BEYOND * beyond, 0.5 * (100.0 + beyond)), beyond / _GAPS_BEYOND
    known = (latency(f"itl_p{100.0 - share!r}") for share in shares)
    low, high = (time if end is None else where(is_nan(end), time, end) for end in known)
    return low, high


def ends_of_percentile(ends: tuple[Real, Real], mean: Real, times: tuple[Real, Real]) -> tuple[Real, Real]:
    """Ends of the range of a percentile [s], whose relative errors are those of the mean."""
    return ends[0] * times[0] / mean, ends[1] * times[1] / mean


def best_of(time: Real, mean: Real, least: Real) -> Real:
    """A latency at the hardware limit at least [s]: percentiles below the mean scale with it."""
    return least * minimum(time / mean, 1.0)


def limited_by(key: str, limit: Real, time: Real, ends: tuple[Real, Real], at_best: Real, applies: Real) -> Limited:
    """A latency over its limit."""
    low, high = (end / limit for end in ends)
    return Limited(key, time / limit, low, high, at_best / limit, applies)


def _without_times(word: Any, reason: Any, conditions: Iterable[tuple[Real, str]]) -> tuple[Any, Any]:
    """Word and reason where a case that has no times fails, whatever is asked of them."""
    for fails, text in conditions:
        word, reason = where(fails, FAIL, word), where(fails, text, reason)
    return word, reason


def _absent_as_none(reason: Any) -> Any:
    """None for an empty reason."""
    if isinstance(reason, str):
        return reason or None
    return where(reason == "", None, reason)


# 80 % intervals of predictions, from the residuals of kernels, passes and hosts.

#: Half width of the 80 % interval of a normal distribution, in standard deviations.
HALF_WIDTH = 1.2816

_E = 2.718281828459045

#: Sigma of kernels whose constants are assumed or borrowed from another kind.
_ASSUMED = 0.35
#: Sigma of host time: request overheads of the fitted engines range from 25 to 80 ms.
_HOST = 0.5
#: Factor for constants measured on another GPU of the generation, a judgement (docs/method.md): between B200 and GB300,
#: swapping sets raises errors by a median factor of 1.05, in 46 of 48 sets by at most 1.25, at worst by 1.38.
INHERITED = 1.25
#: Extra sigma of passes with latent attention, recurrent state or sparse attention, whose modules launch more small
#: kernels than are counted.
_NOVEL = 0.1
#: Share of a kernel's residual that other shapes of its kind have in common: the sum of a layer's GEMMs is predicted
#: better than a single one.
_COMMON_RESIDUAL = 0.6
#: Sigma of servers under a load beyond the kernels' own (docs/accuracy.md): of TPOT; of TTFT where the engine profile
#: states none; factor on it with many requests in flight; of TTFT where requests wait for memory.
_LOADED_TPOT, LOADED_TTFT, _CROWDED, _LIMITED_TTFT = 0.09, 0.42, 1.7, 1.1
#: Sigma of TPOT on a decode pool, beyond the kernels' own: its median error over measured pools (docs/accuracy.md,
#: "Separate pools", not fitted), over that of a normal distribution.
POOLED_TPOT = 0.146 / 0.6745
_CROWD = 64.0  # requests in flight
_WAITING = MILLI  # share of requests that wait for a slot
#: Sigma of kernels of a generation that was never timed: by how much constants of generations differ, of the vendor
#: whose medians stand in and of any other, and what is left over by a generation's own (accuracy/forecast.py, which
#: derives all three, and docs/forecasts.md).
NEXT_GENERATION, OTHER_VENDOR, LEFT_OVER = 0.17, 0.31, 0.18
_MEDIANS_OF = "NVIDIA"
#: Basis of the range of an untimed accelerator of another vendor than the medians'.
_FOREIGN = "foreign"


def pass_sigma(passed: Pass, basis: str, sigma: Real) -> Real:
    r"""Standard deviation of ln(predicted / measured) of a pass.

    .. math:: \sigma^2 = \sigma_0^2 + \sigma_{novel}^2
              + \sum_g \left(\frac{t_g}{t} \sigma_g\right)^2

    Errors are fully correlated within a kind and dtype, independent between kinds and of the error of the whole pass.

    Args:
        passed: kernels with the residuals of their calibration.
        basis: `basis_of_range` [text].
        sigma: of whole passes, beyond the kernels' own [1].

    Returns:
        Standard deviation [1].

    Source:
        docs/method.md, "Intervals"; coverage in docs/accuracy.md.
    """
    variance = passed.figures(_READERS.get(basis, _variance))[0]
    return (sigma * sigma + variance) ** 0.5 * (INHERITED if basis == "inherited" else 1.0)


def basis_of_range(deployment: Deployment) -> str:
    """The basis of a deployment, or "foreign" where medians of another vendor's generations stand in."""
    return deployment.basis if deployment.basis != "generic" else _untimed(deployment.gpu)


def basis_of_kernels(deployment: Deployment) -> str:
    """The same for single kernels: what servers say holds for whole passes alone."""
    return _untimed(deployment.gpu) if deployment.basis == "served" else basis_of_range(deployment)


def _untimed(gpu: Gpu) -> str:
    return "generic" if gpu.vendor == _MEDIANS_OF else _FOREIGN


def _variance(passed: Pass, basis: str = "calibrated") -> tuple[Real, ...]:
    """Variance of the logarithm of a pass, from its kernels alone."""
    times: dict[tuple[KernelKind, str], Real] = {}
    sigmas: dict[tuple[KernelKind, str], float] = {}
    for kernel in passed.kernels:
        if kernel.part in (NETWORK, LOADING):  # stated by the user
            continue
        key = kernel.kind, kernel.dtype
        times[key] = times.get(key, 0.0) + kernel.time
        sigmas[key] = kernel_sigma(kernel.kind, kernel.roof.efficiency.sigma, basis)
    groups = [(time, sigmas[key]) for key, time in times.items()]
    return (variance_of_groups(groups, is_novel=any(kind.is_novel for kind, _ in times)),)


def variance_of_groups(groups: Sequence[tuple[Real, Real]], *, is_novel: Real) -> Real:
    """The same from the time of each kind of kernel [s] and its sigma [1]."""
    pass_time: Real = 0.0
    for time, _ in groups:
        pass_time = pass_time + time
    total: Real = where(is_novel, _NOVEL**2, 0.0)
    for time, sigma in groups:
        share = time / pass_time * sigma
        total = total + share * share
    return total


def _generic_variance(passed: Pass) -> tuple[Real, ...]:
    return _variance(passed, "generic")


def _foreign_variance(passed: Pass) -> tuple[Real, ...]:
    return _variance(passed, _FOREIGN)


_READERS = {"generic": _generic_variance, _FOREIGN: _foreign_variance}


def load_sigma(
    step: Pass, basis: str, result: str, under_load: Served | Pooled, users: Real, stated: float | None
) -> Real:
    """Standard deviation of ln(predicted / measured) of a latency under a load.

    Args:
        step: decode step at the batch of the load, without a prompt.
        basis: `basis_of_range` [text].
        result: ttft or tpot [text].
        under_load: mean figures of the load.
        users: requests in flight on a replica [requests].
        stated: sigma of TTFT under a load in the engine profile, if any [1].

    Returns:
        Standard deviation [1].

    Source:
        Residuals of measured servers, docs/accuracy.md, with their coverage.
    """
    if result == "tpot":
        return pass_sigma(step, basis, _LOADED_TPOT)
    loaded = LOADED_TTFT if stated is None else stated
    crowded = where(users > _CROWD, _CROWDED * loaded, loaded)
    return pass_sigma(step, basis, where(under_load.waiting_share > _WAITING, _LIMITED_TTFT, crowded))


def served_note(gpu: Gpu) -> str:
    """On what the answers of a GPU stand whose servers were measured, but not its kernels."""
    calibration = gpu.calibration
    if calibration is None or calibration.served is None:
        return ""
    timed = [f"{dtype} {KINDS[kind].label}" for (kind, dtype), each in calibration.kernels.items() if each.is_measured]
    kernels = f"only {', '.join(timed)} timed; other" if timed else "no kernels timed;"
    prompts, steps = (
        f"({counted(each.runs, 'run')}, {counted(each.models, 'model')})"
        for each in (calibration.served.prefill, calibration.served.decode)
    )
    return (
        f"{gpu.name}: {kernels} constants are medians of other generations; servers scale prefill passes {prompts} and "
        f"decode steps {steps}; the range is wide"
    )


def served_sigma(deployment: Deployment, result: str) -> float:
    """Sigma of the factor of a pass on which ``ttft`` or ``tpot`` stands, as servers tell [1]; 0 where kernels tell."""
    calibration = deployment.gpu.calibration
    if deployment.basis != "served" or calibration is None or calibration.served is None:
        return 0.0
    served = calibration.served
    return (served.prefill if result == "ttft" else served.decode).sigma


def wider(sigma: Real, served: Real) -> Real:
    """Standard deviation of a time together with that of the factor of its pass, independent of it.

    Args:
        sigma: of ln(predicted / measured), the factor apart [1].
        served: of the logarithm of the factor [1].

    Returns:
        Standard deviation [1].

    Source:
        Arithmetic: variances of independent errors add up.

    >>> wider(0.3, 0.4)
    0.5
    """
    return (sigma * sigma + served * served) ** 0.5


def deployment_name(deployment: Deployment) -> str:
    """Model, weights, GPU and plan, by which a profile knows the deployments that it was fitted to."""
    sections, plan = deployment.quantization.sections, deployment.plan
    weights = sections["experts" if deployment.model.is_moe else "linear"].format
    degrees = (
        f"{name} {getattr(plan, name)}" for name in ("tp", "pp", "ep", "dp", "cp", "dcp") if getattr(plan, name) != 1
    )
    return " ".join((deployment.model.short_name, weights, "on", deployment.gpu.name, *degrees))


def remaining_share(deployment: Deployment, result: str) -> float:
    """What remains of the sigma of ttft or tpot where the profile was fitted to runs of this very deployment [1]."""
    engine = deployment.engine
    share = engine.scatter_ttft if result == "ttft" else engine.scatter_tpot
    return 1.0 if share is None or deployment_name(deployment) not in engine.fitted_on else share


def spread(time: Real, sigma: Real) -> tuple[Real, Real]:
    """Ends of the 80 % interval of a log-normal distribution.

    Args:
        time: its median [s].
        sigma: of its logarithm [1].

    Returns:
        Low and high end [s].

    Valid:
        Residuals are log-normal; the measured coverage is in docs/accuracy.md.

    Source:
        90th percentile of a normal distribution, 1.2816 standard deviations above its mean.
    """
    factor = _E ** (HALF_WIDTH * sigma)
    return time / factor, time * factor


def kernel_sigma(kind: KernelKind, sigma: float | None, basis: str = "calibrated") -> float:
    """Sigma of the kernels of a kind whose residuals have a sigma, if they were measured.

    >>> from roofline.specs.gpu import KINDS
    >>> [round(kernel_sigma(KINDS["gemm"], None, basis), 2) for basis in ("generic", "foreign", "calibrated")]
    [0.25, 0.36, 0.35]
    """
    if kind is HOST:
        return _HOST
    if basis in _READERS:
        differs = NEXT_GENERATION if basis == "generic" else OTHER_VENDOR
        return float((differs * differs + LEFT_OVER * LEFT_OVER) ** 0.5)
    return _ASSUMED if sigma is None else _COMMON_RESIDUAL * sigma


def stated_sigma(kind: KernelKind, sigma: float | None, gpu: Gpu) -> float:
    """Sigma of residuals for tables that hold a number for every kind: what was never timed is as uncertain as that."""
    basis = basis_of(gpu, "calibrated")
    return kernel_sigma(kind, sigma, _untimed(gpu) if basis == "generic" else basis) / _COMMON_RESIDUAL


# Warnings: shapes beyond calibrations or a model's context, and assumed constants.

# Largest shapes among the timed kernels (accuracy/kernel_rows.py).
_FITTED_TOKENS = _FITTED_CONTEXT = 128 * KIBI  # in one prefill pass; in the cache
_FITTED_BATCH = 2 * KIBI
_BEYOND_CONTEXT = "isl + osl exceeds the "  # begins a warning that may not wait for --notes
#: Begins a note on rates that are below the specification.
DERATED = "derated: "
_OFTEN = 10  # calls after which it pays to check whether any kernel at all is assumed


def is_within(deployment: Deployment, workload: Workload) -> bool:
    """Whether a case, or every case of an array, is well within all limits; then `beyond` need not run."""
    isl, osl, batch = largest_of(workload.isl), largest_of(workload.osl), largest_of(workload.batch)
    if not type(isl) is type(osl) is type(batch) is float:
        return False  # for numbers of other kinds, which stand for other cases too
    tokens, length = isl * batch, isl + osl
    longest = deployment.model.max_context
    fits = tokens <= _FITTED_TOKENS and length <= _FITTED_CONTEXT and batch <= _FITTED_BATCH
    return fits and (longest is None or length <= longest)


def beyond(deployment: Deployment, workload: Workload) -> Iterator[tuple[Real, str]]:
    """Whether each limit on lengths and batch is exceeded, and the warning for it."""
    length = workload.isl + workload.osl
    if deployment.basis != "ideal":
        computed = workload.isl - (0.0 if is_a_mixture(workload.cache) else workload.prefix)
        tokens = computed / chunks(computed, deployment.effective_engine.max_num_batched_tokens) * workload.batch
        message = f"more than {_FITTED_TOKENS:,} prompt tokens in one pass: beyond the timed attention kernels"
        yield tokens > _FITTED_TOKENS, message
        yield (
            length > _FITTED_CONTEXT,
            f"context beyond {_FITTED_CONTEXT:,} tokens: longer than any timed decode kernel",
        )
        message = f"batch beyond {_FITTED_BATCH:,} sequences: larger than any timed decode kernel"
        yield workload.batch > _FITTED_BATCH * deployment.plan.dp, message
    model = deployment.model
    if model.max_context is not None:
        message = f"{_BEYOND_CONTEXT}{model.max_context}-token context of {model.short_name}"
        yield length > model.max_context, message


def is_pressing(text: str) -> bool:
    """Whether a warning belongs on the first screen: the model cannot serve such requests as asked.

    >>> is_pressing("h100-sxm: isl + osl exceeds the 131072-token context of llama-3.1-8b"), is_pressing("tp = 4: ...")
    (True, False)
    """
    return _BEYOND_CONTEXT in text


def stand_in_note(kernels: str, calibration: str, instead: str) -> str:
    """Warning that kernels were not measured, and which parameters replace theirs."""
    return f"no {kernels} kernels measured on {calibration}: {instead} parameters used"


def assumed_kernels(deployment: Deployment, *passes: Pass) -> tuple[str, ...]:
    """Dtype and kind of kernels with assumed constants; none where whole passes stand on other evidence."""
    return _assumed(deployment, (kernel for passed in passes for kernel in passed.kernels))


def _assumed(deployment: Deployment, kernels: Iterable[Kernel]) -> tuple[str, ...]:
    if deployment.basis in ROUGH:
        return ()
    names = dict.fromkeys(
        kernel.kind.name if kernel.kind.is_collective else f"{kernel.dtype} {kernel.kind.name}"
        for kernel in kernels
        if not kernel.roof.efficiency.is_measured and not kernel.kind.is_minor and _runs(kernel)
    )
    return tuple(names)


def _runs(kernel: Kernel) -> bool:
    """Whether a kernel runs, or may run in some case of an array: one of two ways may be faster."""
    return type(kernel.count) not in (int, float) or kernel.count > 0.0


def assumptions(deployment: Deployment, *passes: Pass) -> list[str]:
    """Warning about kernels with assumed constants, if any matter."""
    calls = deployment.memo.get(assumptions, 0)
    deployment.memo[assumptions] = calls + 1
    if calls == _OFTEN and not _assumed(deployment, every_kernel(deployment)):
        deployment.memo[assumptions] = -math.inf
    kernels = assumed_kernels(deployment, *passes) if calls >= 0 else ()
    if not kernels:
        return []
    generation = deployment.gpu.generation
    return [f"assumed, not measured on {generation}: {', '.join(kernels)} (see its calibration file)"]
