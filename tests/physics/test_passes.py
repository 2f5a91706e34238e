"""Passes: never faster than the hardware limit, sums of their kernels, additive over layers and ranks."""

from dataclasses import replace

from conftest import (
    SAMPLE_GPUS,
    SAMPLE_MODELS,
    close,
    dense_ffns,
    deploy,
    deployments,
    engines,
    faster,
    gpus,
    gqas,
    models,
    with_shorter_host_times,
    with_shorter_latencies,
)
from every_case import each
from hypothesis import given
from hypothesis import strategies as st

import roofline as rl
from roofline.physics.assembly import rank_batch
from roofline.physics.equation import Terms
from roofline.physics.passes import decode_pass, prefill_pass
from roofline.physics.plan import Plan
from roofline.serving.quantization import PRESETS
from roofline.specs.gpu import ALL_REDUCE, MOE_COMBINE, MOE_DISPATCH
from roofline.specs.model import Group, MoeFfn
from roofline.support.errors import UnsupportedPrecision

lengths = st.integers(1, 20_000)
batches = st.integers(1, 512)
growth = st.integers(1, 3000)


def both(deployment, batch, new, cached):
    """A prefill pass and a decode pass."""
    return (
        prefill_pass(deployment, float(batch), float(new), float(cached)),
        decode_pass(deployment, float(batch), float(new + cached)),
    )


def assert_not_faster_than_the_hardware_limit(calibrated, ideal, batch, new, cached):
    for passed, limit in zip(both(calibrated, batch, new, cached), both(ideal, batch, new, cached), strict=True):
        for slow, light in zip(passed.kernels, limit.kernels, strict=True):
            assert (slow.name, slow.work) == (light.name, light.work)
            assert slow.terms.total >= light.terms.total * (1.0 - 1e-12), slow.name
        assert passed.time >= limit.time * (1.0 - 1e-12)


# --- bounds -----------------------------------------------------------------------------------


@each("gpu", SAMPLE_GPUS, few=3)
@each("preset", [None, *PRESETS])
def test_no_kernel_of_the_catalog_is_faster_than_the_hardware_limit(gpu, preset):
    compared = 0
    # A quarter of the models, another one for every GPU and format: all of them with each of either.
    turn = SAMPLE_GPUS.index(gpu) + [None, *PRESETS].index(preset)
    for name in SAMPLE_MODELS[turn % 4 :: 4]:
        for plan in (Plan(), Plan(tp=8), Plan(tp=2, pp=2)):
            try:
                ideal = deploy(name, gpu, plan, preset, "ideal")
            except UnsupportedPrecision:
                continue
            calibrated = replace(ideal, basis="calibrated")
            for batch, new, cached in ((1, 512, 0), (32, 40, 6000)):
                assert_not_faster_than_the_hardware_limit(calibrated, ideal, batch, new, cached)
                compared += 1
    assert compared or preset in {"fp8", "fp8_static", "fp8_block", "int8", "nvfp4"}  # which not every GPU has


@each("gpu", SAMPLE_GPUS)
def test_no_collective_of_the_catalog_is_faster_than_the_hardware_limit(gpu):
    for name in ("deepseek-v3", "mixtral-8x7b"):
        for plan in (Plan(tp=1, dp=8, ep=8), Plan(tp=2, dp=4, ep=4), Plan(tp=8, dp=2, ep=8), Plan(tp=4, pp=4)):
            ideal = deploy(name, gpu, plan, basis="ideal")
            calibrated = replace(ideal, basis="calibrated")
            assert_not_faster_than_the_hardware_limit(calibrated, ideal, 64, 100, 1000)
            assert all(any(kernel.terms.link for kernel in one.kernels) for one in both(calibrated, 64, 100, 1000))


@given(deployment=deployments(), batch=batches, new=lengths, cached=lengths)
def test_no_kernel_of_a_random_deployment_is_faster_than_the_hardware_limit(deployment, batch, new, cached):
    calibrated, ideal = (replace(deployment, basis=basis) for basis in ("calibrated", "ideal"))
    # What is done may differ between the bases where latent attention has the choice: no prefix here.
    assert_not_faster_than_the_hardware_limit(calibrated, ideal, batch, new, 0)
    slow, light = (both(one, batch, new, cached)[0].time for one in (calibrated, ideal))
    assert slow >= light * (1.0 - 1e-12)


@given(deployment=deployments(), batch=batches, new=lengths, cached=st.just(0) | lengths)
def test_a_pass_takes_the_sum_of_its_kernels_each_between_its_largest_term_and_their_sum(
    deployment, batch, new, cached
):
    for passed in both(deployment, batch, new, cached):
        assert close(passed.time, sum(kernel.count * kernel.terms.total for kernel in passed.kernels))
        assert close(passed.flop, sum(kernel.count * kernel.work.flop for kernel in passed.kernels))
        assert close(passed.nbytes, sum(kernel.count * kernel.work.nbytes for kernel in passed.kernels))
        for kernel in passed.kernels:
            terms = kernel.terms
            parts = (terms.compute, terms.memory, terms.latency, terms.exponentials, terms.link)
            assert max(parts) <= terms.total * (1.0 + 1e-12)
            assert terms.total <= sum(parts) * (1.0 + 1e-12)


@given(deployment=deployments(), batch=batches, new=lengths)
def test_the_bound_of_a_pass_is_the_one_that_most_of_its_time_waits_for(deployment, batch, new):
    for passed in both(deployment, batch, new, 0):
        shares = {}
        for kernel in passed.kernels:
            shares[kernel.terms.bound] = shares.get(kernel.terms.bound, 0.0) + kernel.time
        assert close(shares[passed.bound], max(shares.values()))


# --- homogeneity --------------------------------------------------------------------------------


def assert_every_time_shrinks(before, after, times):
    for slow, fast in zip(before.kernels, after.kernels, strict=True):
        for field in Terms._fields:
            assert close(getattr(fast.terms, field) * times, getattr(slow.terms, field)), (slow.name, field)
        assert fast.count == slow.count
    assert close(after.time * times, before.time)


@given(
    deployment=deployments(),
    engine=engines,
    batch=batches,
    new=lengths,
    cached=st.just(0) | lengths,
    times=st.floats(0.01, 100.0),
)
def test_rates_times_k_and_latencies_over_k_give_every_time_over_k(deployment, engine, batch, new, cached, times):
    deployment = replace(deployment, engine=engine)
    scaled = replace(
        deployment,
        gpu=with_shorter_latencies(faster(deployment.gpu, times), times),
        engine=with_shorter_host_times(engine, times),
    )
    for before, after in zip(both(deployment, batch, new, cached), both(scaled, batch, new, cached), strict=True):
        assert_every_time_shrinks(before, after, times)


@each("gpu", SAMPLE_GPUS)
@each("name", ["llama-3.1-70b", "deepseek-v3", "gpt-oss-120b"])
@each("basis", ["ideal", "calibrated"])
def test_times_of_the_catalog_are_homogeneous_in_rates_and_latencies(gpu, name, basis):
    deployment = deploy(name, gpu, Plan(tp=2, dp=4, ep=4), basis=basis)
    scaled = replace(deployment, gpu=with_shorter_latencies(faster(deployment.gpu, 3.0), 3.0))
    for before, after in zip(both(deployment, 32, 300, 4000), both(scaled, 32, 300, 4000), strict=True):
        assert_every_time_shrinks(before, after, 3.0)


# --- monotony -----------------------------------------------------------------------------------

RATES = (("peaks",), ("bandwidth",), ("exp_rate",), ("link",), ("scale_out",))


@given(deployment=deployments(), batch=batches, new=lengths, cached=st.just(0) | lengths, times=st.floats(1.0, 10.0))
def test_a_higher_rate_never_makes_a_pass_slower(deployment, batch, new, cached, times):
    slow = both(deployment, batch, new, cached)
    for rates in RATES:
        quicker = replace(deployment, gpu=faster(deployment.gpu, times, rates))
        for before, after in zip(slow, both(quicker, batch, new, cached), strict=True):
            assert after.time <= before.time * (1.0 + 1e-12), rates


@each("gpu", SAMPLE_GPUS, few=3)
@each("name", SAMPLE_MODELS)
def test_a_higher_rate_never_makes_a_model_of_the_catalog_slower(gpu, name):
    for basis in ("ideal", "calibrated"):
        deployment = deploy(name, gpu, Plan(tp=2), basis=basis)
        before = both(deployment, 16, 800, 900)
        for rates in RATES:
            after = both(replace(deployment, gpu=faster(deployment.gpu, 1.5, rates)), 16, 800, 900)
            for slow, fast in zip(before, after, strict=True):
                assert fast.time <= slow.time * (1.0 + 1e-12)


@given(
    case=st.tuples(deployments(models(mixers=gqas())), lengths) | st.tuples(deployments(), st.just(0)),
    batch=batches,
    new=lengths,
    more=growth,
)
def test_more_prompt_tokens_or_prompts_never_take_less_time(case, batch, new, more):
    deployment, cached = case
    first, longer, further = (
        prefill_pass(deployment, float(prompts), float(tokens), float(cached)).time
        for prompts, tokens in ((batch, new), (batch, new + more), (batch + more, new))
    )
    assert min(longer, further) >= first * (1.0 - 1e-12)


@given(
    deployment=deployments(models(mixers=gqas(reach=("full", "window")))),
    batch=batches,
    context=lengths,
    steps=st.integers(1, 500),
    more=growth,
)
def test_more_context_steps_or_sequences_never_make_a_step_faster(deployment, batch, context, steps, more):
    def time(batch, context, steps):
        return decode_pass(deployment, float(batch), float(context), float(steps)).time

    others = (batch + more, context, steps), (batch, context + more, steps), (batch, context, steps + more)
    assert min(time(*other) for other in others) >= time(batch, context, steps) * (1.0 - 1e-12)


@each("name", SAMPLE_MODELS)
@each("gpu", ["h100-sxm", "b200", "a100-sxm-80gb"])
def test_times_of_the_catalog_grow_with_prompt_context_and_batch(name, gpu):
    deployment = deploy(name, gpu, Plan(tp=8))
    sizes = (1.0, 2.0, 7.0, 100.0, 129.0, 4000.0)
    for run in (prefill_pass, decode_pass):
        for cases in ([(2.0, size) for size in sizes], [(size, 300.0) for size in sizes]):
            times = [run(deployment, *case).time for case in cases]
            assert times == sorted(times)
            assert times[-1] > times[0]


# --- what is summed over ranks ---------------------------------------------------------------------

PARALLEL = (
    "command-r-08-2024", "command-r-v01", "falcon-180b", "falcon-40b", "falcon-7b", "gpt-j-6b", "palm-540b", "phi-2",
)  # fmt: skip


def test_the_models_whose_mixer_and_network_read_the_same_input_are_known():
    assert tuple(name for name in rl.models() if rl.load_model(name).parallel) == PARALLEL


@each("name", [*PARALLEL, "llama-3.1-8b", "llama-3.1-70b", "gemma-3-27b", "deepseek-v3", "mixtral-8x7b"])
def test_mixer_and_network_are_summed_over_the_ranks_at_once_where_they_run_in_parallel_which_is_quicker(name):
    deployment = deploy(name, "h100-sxm", Plan(tp=2))
    in_turn = replace(deployment, model=replace(deployment.model, parallel=False))
    for beside, after in zip(both(deployment, 4, 500, 0), both(in_turn, 4, 500, 0), strict=True):
        sums = [sum(kernel.count for kernel in one.kernels if kernel.kind is ALL_REDUCE) for one in (beside, after)]
        assert sums == [(1 if name in PARALLEL else 2) * deployment.model.layers, 2 * deployment.model.layers]
        assert (beside.flop, beside.nbytes) == (after.flop, after.nbytes)
        assert (beside.time < after.time) == (name in PARALLEL)


# --- additivity ---------------------------------------------------------------------------------

_ENDS = {"embedding", "final norm", "head", "sample", "logits all-gather", "stage hand-over"}


def layers_work(passed):
    """Work of the kernels inside layers, summed field by field under each name."""
    found = {}
    for kernel in passed.kernels:
        if kernel.name not in _ENDS:
            before = found.get(kernel.name, (0.0,) * len(kernel.work))
            work = tuple(kernel.count * amount for amount in kernel.work)
            found[kernel.name] = tuple(a + b for a, b in zip(before, work, strict=True))
    return found


@given(
    deployment=deployments(),
    batch=batches,
    new=lengths,
    cached=st.just(0) | lengths,
    split=st.tuples(st.integers(1, 30), st.integers(1, 30)),
)
def test_two_half_models_make_one(deployment, batch, new, cached, split):
    def with_repeats(repeat):
        groups = tuple(Group(repeat, group.layers) for group in deployment.model.groups)
        return replace(deployment, model=replace(deployment.model, groups=groups))

    one, two = (both(with_repeats(repeat), batch, new, cached) for repeat in split)
    whole = both(with_repeats(sum(split)), batch, new, cached)
    for first, second, sum_of_both in zip(one, two, whole, strict=True):
        left, right, expected = (layers_work(passed) for passed in (first, second, sum_of_both))
        assert left.keys() == right.keys() == expected.keys()
        for name, amounts in expected.items():
            for a, b, c in zip(left[name], right[name], amounts, strict=True):
                assert close(a + b, c), name


_REPLICATED = ("q_a, kv_a", "router")


def beside(whole, shard):
    """Kernels of a pass on one GPU, each with its shard on one of several; collectives left out."""
    return zip(whole.kernels, [kernel for kernel in shard.kernels if not kernel.work.link_bytes], strict=True)


@given(deployment=deployments(), tp=st.sampled_from((2, 4, 8)), batch=batches, new=lengths, cached=lengths)
def test_the_arithmetic_of_all_ranks_is_that_of_the_whole_but_for_what_is_replicated(
    deployment, tp, batch, new, cached
):
    alone, shared = (replace(deployment, plan=Plan(tp=degree)) for degree in (1, tp))
    for pair in zip(both(alone, batch, new, cached), both(shared, batch, new, cached), strict=True):
        for whole, shard in beside(*pair):
            assert shard.name == whole.name
            ranks = 1 if whole.name in _REPLICATED else tp
            if whole.name.startswith(("qkv", "q, kv_a")):  # KV heads beyond their number and latents are replicated
                assert whole.work.flop * (1.0 - 1e-12) <= tp * shard.work.flop <= tp * whole.work.flop
            else:
                assert close(ranks * shard.work.flop, whole.work.flop), whole.name


@given(deployment=deployments(models(mixers=gqas())), tp=st.sampled_from((2, 4, 8)), context=lengths)
def test_projections_and_cache_shard_out_where_there_are_kv_heads_enough(deployment, tp, context):
    alone, shared = (decode_pass(replace(deployment, plan=Plan(tp=degree)), 3.0, float(context)) for degree in (1, tp))
    mixers = [mixer for _, mixer in deployment.model.mixers]
    for kind, field in (("qkv", "flop"), ("attention", "kv_bytes")):
        found = [pair for pair in beside(alone, shared) if pair[0].name.split(" ")[0] == kind]
        for mixer, (whole, shard) in zip(mixers, found, strict=True):
            amount, share = getattr(whole.work, field), getattr(shard.work, field)
            if mixer.kv_heads >= tp:
                assert close(tp * share, amount)
            else:
                assert amount < tp * share <= tp * amount


@given(batch=st.integers(1, 1000), dp=st.integers(1, 64))
def test_the_fullest_rank_runs_the_batch_divided_and_rounded_up(batch, dp):
    assert rank_batch(float(batch), dp) == -(-batch // dp)


@given(deployment=deployments(models(mixers=gqas(reach=("window",)))), batch=batches)
def test_a_step_stops_growing_beyond_the_window(deployment, batch):
    widest = max(mixer.window for _, mixer in deployment.model.mixers)
    times = [decode_pass(deployment, float(batch), float(context)).time for context in (widest, 3 * widest, 10**6)]
    assert close(times[0], times[1])
    assert close(times[0], times[2])
    assert decode_pass(deployment, float(batch), 0.0).time <= times[0]


@given(model=models(mixers=gqas(), ffns=dense_ffns), gpu=gpus(), new=lengths)
def test_formats_of_fewer_bits_never_make_an_ideal_pass_slower(model, gpu, new):
    wide, narrow = (deploy(model, gpu, quantization=name, basis="ideal") for name in ("bf16", "fp8_static"))
    for before, after in zip(both(wide, 4, new, 0), both(narrow, 4, new, 0), strict=True):
        assert after.time <= before.time * (1.0 + 1e-12)


def test_experts_spread_over_data_parallel_ranks_exchange_their_tokens():
    deployment = deploy("deepseek-v3", "h200-sxm", Plan(dp=8, ep=8))
    passed = decode_pass(deployment, 64.0, 100.0)
    sparse = sum(count for count, ffn in deployment.model.ffns if isinstance(ffn, MoeFfn))
    sent = {kernel.kind: kernel for kernel in passed.kernels if kernel.kind in (MOE_DISPATCH, MOE_COMBINE)}
    assert {kind: kernel.count for kind, kernel in sent.items()} == {MOE_DISPATCH: sparse, MOE_COMBINE: sparse}
    # 8 sequences a rank x 8 experts x width 7168, 7/8 of it to others; fp8 out, 16 bits back.
    values = 8 * 8 * 7168 * 7 / 8
    assert close(sent[MOE_DISPATCH].work.link_bytes, values)
    assert close(sent[MOE_COMBINE].work.link_bytes, 2.0 * values)
