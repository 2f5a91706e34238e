"""Towers that encode images, video and audio: their kernels, their weights and what they need beside these."""

from __future__ import annotations

from roofline.numbers.operations import Real, ceil, maximum, minimum
from roofline.physics import kernels
from roofline.physics.assembly import ACTIVATION_NBYTES, Assembly
from roofline.physics.equation import Kernel, Work
from roofline.physics.kernels import gemm
from roofline.physics.plan import Deployment, Scheme
from roofline.specs.gpu import ALL_REDUCE, ENCODER, ENCODER_ATTENTION, GEMM, HOST
from roofline.specs.media import Part, Step, Tower

_NBYTES = 2.0  # weights and activations of towers are 16-bit, whatever the format of the language model
_TILE = 128.0  # head width at which the serial depth of prompt attention is calibrated
_BUDGET = 8192.0  # tokens of a step where the engine states none
_STREAMS = 4.0  # values of the tower's width per patch that are alive together


def encoder_kernels(deployment: Deployment, requests: Real) -> tuple[Kernel, ...]:
    """Kernels that encode the media of some requests, before their prompts are computed.

    Args:
        deployment: with the media of a request, plan and GPU.
        requests: on each data-parallel rank, encoded together [sequences].

    Returns:
        The kernels of one rank, with the time by which the host launches them more slowly than they run; none where
        requests are text.

    Valid:
        Attention and networks are sharded by tensor parallelism, as in vLLM unless --mm-encoder-tp-mode data is given;
        the first stage of a pipeline encodes. Pixels are ready: resizing on the CPU is not counted.

    Source:
        Shapes of the towers; "mm_encoder_tp_mode" of vLLM's MultiModalConfig: weights are sharded by default
        (https://docs.vllm.ai/en/latest/configuration/optimization/#batch-level-dp-for-multi-modal-encoders).
    """
    if deployment.media is None:
        return ()
    assembly = Assembly(deployment, 1.0, 1.0)
    with assembly.serving(ENCODER):
        for part in deployment.media.parts:
            _add_part(assembly, part, requests)
        _add_launches(assembly)
    return tuple(assembly.kernels)


def encoder_time(deployment: Deployment, requests: Real) -> Real:
    """Time of `encoder_kernels`; zero where requests are text [s].

    Args:
        deployment: with the media of a request, plan and GPU.
        requests: on each data-parallel rank, encoded together [sequences].

    Returns:
        Time [s].

    Source:
        Their sum.
    """
    time: Real = 0.0
    for kernel in encoder_kernels(deployment, requests):
        time = time + kernel.time
    return time


def encoder_attention(tower: Tower, sequences: Real, patches: Real, window: Real, tp: Real) -> Work:
    r"""Work of attention without a mask over the patches of images, the frames of audio, or windows of them.

    .. math:: F = 4 h d\, b N w,\quad X = h\, b N w,\quad Q = 8 b N d h,\quad d_s = w \frac{d}{128}

    Args:
        tower: with heads of d values.
        sequences: b that attend apart [sequences].
        patches: N of each [tokens].
        window: patches w that each of them sees [tokens].
        tp: ranks that share the heads, h on each; the last ones hold padding where they do not divide them [1].

    Returns:
        The work [FLOP, B].

    Source:
        Arithmetic; one exponential per pair and head, as in `gqa_prefill`, every pair instead of half of them.

    >>> tower = Tower(hidden=64, layers=1, heads=1, width=64, stem=(), projector=(), rule="fixed")
    >>> encoder_attention(tower, 1.0, 10.0, 10.0, 1).exponentials
    100.0
    """
    heads, width = ceil(tower.heads / tp, "a rank holds one more head of an encoder"), tower.head_width
    pairs = sequences * patches * window
    return Work(
        flop=4.0 * heads * width * pairs,
        activation_bytes=2.0 * ACTIVATION_NBYTES * sequences * patches * width * 2.0 * heads,
        exponentials=heads * pairs,
        serial_depth=window * width / _TILE,
    )


def encoder_bytes(deployment: Deployment) -> Real:
    r"""Weights of all towers of a model on one GPU.

    .. math:: 2 \left(\frac{M}{tp} + V\right)

    Args:
        deployment: model and plan.

    Returns:
        Bytes: matrices M are sharded, V are replicated: biases, norms, positions and what turns pixels into patches
        [B]; zero where requests are text.

    Valid:
        On the first stage of a pipeline, which is taken to be the fullest.

    Source:
        Shapes of the towers, in 16 bits.
    """
    if deployment.media is None:
        return 0.0
    total: Real = 0.0
    for tower in deployment.model.encoders:
        stem = sum(step.count * step.inner * step.outer for step in tower.stem)
        replicated = stem + tower.parameters() - tower.matrices
        total = total + _NBYTES * ((tower.matrices - stem) / deployment.plan.tp + replicated)
    return total


def encoder_workspace(deployment: Deployment) -> Real:
    r"""Memory that encoding takes beside the weights: activations of a step, and embeddings until they are used.

    .. math:: 2 T \left(4 H + \frac{W}{tp}\right) + 2 S\, D

    Args:
        deployment: with the media of a request, engine and plan.

    Returns:
        An estimate: T patches of a tower of width H with networks of width W, and S tokens at the width D of the
        model [B]; zero where requests are text.

    Valid:
        A step encodes what becomes its token budget, or one image or recording if that is more; S is as many.

    Source:
        As `activation_bytes` of the language model; max_num_encoder_input_tokens and encoder_cache_size of vLLM's
        SchedulerConfig, both the token budget by default.
    """
    if deployment.media is None:
        return 0.0
    budget = deployment.engine.max_num_batched_tokens
    widest: Real = 0.0
    embedded: Real = 0.0
    for part in deployment.media.parts:
        tower, of_one = part.tower, part.merged / part.sequences
        step = minimum(1.0 * part.merged, maximum(_BUDGET if budget is None else 1.0 * budget, of_one))
        inner = (2.0 if tower.gated else 1.0) * tower.width / deployment.plan.tp
        patches = step / of_one * part.patches
        widest = maximum(widest, ACTIVATION_NBYTES * patches * (_STREAMS * tower.hidden + inner))
        embedded = embedded + ACTIVATION_NBYTES * step * deployment.model.hidden
    return widest + embedded


def _add_part(assembly: Assembly, part: Part, requests: Real) -> None:
    """Add the layers of one tower, with what comes before and after them."""
    tower, tp, name = part.tower, assembly.tp, part.tower.kind
    sequences = requests * part.sequences
    patches = sequences * part.patches
    heads = ceil(tower.heads / tp, "a rank holds one more head of an encoder") * tower.head_width
    inner = ceil(tower.width / tp, "a rank holds one more column of an encoder")
    stream = ACTIVATION_NBYTES * patches * tower.hidden
    for step in tower.stem:
        _add_matrix(assembly, f"{name}, patches", step, patches)
    layers = tower.layers
    assembly.elementwise(f"{name}, norm", 2 * layers + 1, kernels.norm_add(patches, tower.hidden))
    _add(assembly, f"{name}, qkv", layers, patches, 3.0 * heads, tower.hidden)
    _add_attention(assembly, part, sequences)
    _add(assembly, f"{name}, o", layers, patches, tower.hidden, heads)
    assembly.collective(f"{name}, attention all-reduce", ALL_REDUCE, layers, stream, tp)
    _add(assembly, f"{name}, up", layers, patches, (2.0 if tower.gated else 1.0) * inner, tower.hidden)
    work = kernels.activation(patches, inner, gated=tower.gated)
    assembly.elementwise(f"{name}, activation", layers, work)
    _add(assembly, f"{name}, down", layers, patches, tower.hidden, inner)
    assembly.collective(f"{name}, ffn all-reduce", ALL_REDUCE, layers, stream, tp)
    _add_projector(assembly, part, requests * part.merged)


def _add_attention(assembly: Assembly, part: Part, sequences: Real) -> None:
    """Add attention: over all patches of a sequence, and in windows where the tower has them."""
    tower, tp, patches = part.tower, assembly.tp, float(part.patches)
    within = min(float(tower.window or patches), patches)
    full = tower.full_layers if tower.window else tower.layers
    if full:
        work = encoder_attention(tower, sequences, patches, patches, tp)
        assembly.sixteen_bit(f"{tower.kind}, attention", full, ENCODER_ATTENTION, work)
    if full < tower.layers:
        work = encoder_attention(tower, sequences, patches, within, tp)
        assembly.sixteen_bit(f"{tower.kind}, windows", tower.layers - full, ENCODER_ATTENTION, work)


def _add_projector(assembly: Assembly, part: Part, merged: Real) -> None:
    """Add the matrices from merged patches to the model's width: sharded by columns, then by rows, in turn."""
    tower, tp, name = part.tower, assembly.tp, f"{part.tower.kind}, projector"
    for place, step in enumerate(tower.projector):
        rows = step.rows * merged
        if place % 2:
            _add(assembly, name, step.count, rows, 1.0 * step.outer, step.inner / tp)
        else:
            _add(assembly, name, step.count, rows, step.outer / tp, 1.0 * step.inner)
    last = tower.projector[-1]
    tensor = ACTIVATION_NBYTES * merged * last.outer
    assembly.collective(f"{name} all-reduce", ALL_REDUCE, last.count, tensor, tp)


def _add_matrix(assembly: Assembly, name: str, step: Step, patches: Real) -> None:
    _add(assembly, name, step.count, step.rows * patches, 1.0 * step.outer, 1.0 * step.inner)


def _add(assembly: Assembly, name: str, count: Real, rows: Real, columns: Real, inner: Real) -> None:
    """Add a multiplication with 16-bit weights."""
    peak = assembly.quantization.sixteen_bit_peak
    work = gemm(rows, columns, inner, Scheme("bf16", _NBYTES, ACTIVATION_NBYTES, peak, "bf16"))
    assembly.kernels.append(assembly.kernel(name, GEMM, "bf16", peak, count, work))


def _add_launches(assembly: Assembly) -> None:
    """Add the time by which the host launches the kernels more slowly than the GPU computes them."""
    launch = assembly.engine.launch
    if type(launch) is float and launch == 0.0:
        return
    launches: Real = 0.0
    time: Real = 0.0
    for kernel in assembly.kernels:
        if kernel.kind is not HOST:
            launches = launches + kernel.count * kernel.kind.launches
        time = time + kernel.time
    waiting = maximum(launch * launches - time, 0.0, "the host launches an encoder as fast as the GPU computes it")
    assembly.host("encoder, launches", waiting)
