"""Weights that stay in host memory: how many, and the time to read them in each pass."""

from __future__ import annotations

from roofline.numbers.operations import Real
from roofline.physics.assembly import Assembly
from roofline.physics.equation import IDEAL_LINK, Kernel, LinkRoof, Roof, Work, collective_time, kernel_time
from roofline.physics.memory import offloadable_bytes, offloaded_bytes
from roofline.physics.plan import Deployment, Offload
from roofline.specs.gpu import GEMM, HOST_LINK, MOE, CollectiveEfficiency
from roofline.support.errors import BadInput

#: Share of its rate that a host link reaches: 12.36 of 15.75 GB/s over PCIe 3.0 x16 (github.com/NVIDIA/nvbandwidth,
#: README), 375 of 450 GB/s over NVLink-C2C (Schieffer et al., arXiv:2407.07850).
REACHED = 0.8
#: Share of the rate of its memory that a CPU reaches as it multiplies experts: 0.4 to 0.7 in public runs of llama.cpp
#: and KTransformers (docs/method/adapters-and-offload.md), an estimate.
REACHED_BY_CPU = 0.6
_REACHES, _CPU_REACHES = CollectiveEfficiency(eta=REACHED), CollectiveEfficiency(eta=REACHED_BY_CPU)
READ = "offloaded weights"


def host_roof(deployment: Deployment, offload: Offload, *, is_decode: bool) -> LinkRoof:
    """Rate at which offloaded weights are read: the host link's, or the host memory's where the CPU computes.

    Args:
        deployment: its GPU and basis.
        offload: the rates that are stated.
        is_decode: whether the pass is a decode step [bool].

    Returns:
        Rate [B/s] and the share of it that is reached; all of a stated `offload_bandwidth`.

    Raises:
        BadInput: the GPU has no host link, and no rate is stated.

    Source:
        Data sheets of the GPU and of the memory; `REACHED`, `REACHED_BY_CPU`.
    """
    is_ideal = deployment.basis == "ideal"
    if is_decode and offload.cpu_bandwidth is not None:
        return LinkRoof(offload.cpu_bandwidth, 2, IDEAL_LINK if is_ideal else _CPU_REACHES)
    if offload.bandwidth is not None:
        return LinkRoof(offload.bandwidth, 2, IDEAL_LINK)
    rate = deployment.gpu.host_link
    if rate is None:
        raise BadInput(
            f"{deployment.gpu.name}: its specification has no host_link, over which offloaded weights are read; give "
            "offload_bandwidth, such as 50GB/s"
        )
    return LinkRoof(rate, 2, IDEAL_LINK if is_ideal else _REACHES)


def read_from_host(assembly: Assembly, first: int, *, is_decode: bool) -> None:
    r"""Move weights that the kernels from the first on read from HBM to the host link.

    .. math:: t = \frac{1}{\eta B} \sum f Q_w,\quad f = \frac{Q_h}{Q}

    Args:
        assembly: kernels of the pass, offload of its deployment.
        first: place of the first kernel of the layers [1].
        is_decode: whether the pass is a decode step [bool].

    Valid:
        Each offloaded weight that a pass uses crosses once, before it is multiplied: nothing overlaps. Of experts only
        those cross that the pass touches. The offloaded share of every matrix is the same. Of tables of n-grams, of
        which each GPU has its columns, those rows cross that tokens look up; engines that fetch them ahead hide it.

    Source:
        vLLM, model_executor/offloader/uva.py: kernels read pinned host memory in place (UVA), or the weights are copied
        before the layer runs; llama.cpp, `--cpu-moe`: the CPU multiplies them where they are.
    """
    deployment = assembly.deployment
    offload = deployment.offload
    assert offload is not None  # noqa: S101  # as who calls has seen
    moved: Real = 0.0
    if offload.is_tables:
        from roofline.physics.layers.memories import NGRAM_ROWS

        for place, kernel in enumerate(assembly.kernels[:first]):
            if kernel.name == NGRAM_ROWS:
                moved = moved + kernel.count * kernel.work.weight_bytes / assembly.tp
                assembly.kernels[place] = _with_share(kernel, 0.0)
        _add_read(assembly, moved, offload, is_decode=is_decode)
        return
    share = offloaded_bytes(deployment) / offloadable_bytes(deployment, offload)
    for place in range(first, len(assembly.kernels)):
        kernel = assembly.kernels[place]
        if kernel.kind is MOE or (kernel.kind is GEMM and not offload.is_experts):
            moved = moved + kernel.count * share * kernel.work.weight_bytes
            assembly.kernels[place] = _with_share(kernel, 1.0 - share)
    _add_read(assembly, moved, offload, is_decode=is_decode)


def _add_read(assembly: Assembly, moved: Real, offload: Offload, *, is_decode: bool) -> None:
    """Add the time in which so many bytes cross the host link."""
    work, roof = Work(link_bytes=moved), host_roof(assembly.deployment, offload, is_decode=is_decode)
    assembly.kernels.append(Kernel(READ, HOST_LINK, "", 1, work, roof, collective_time(work, roof)))


def _with_share(kernel: Kernel, share: Real) -> Kernel:
    """The kernel with a share of its weights alone to read from HBM."""
    assert isinstance(kernel.roof, Roof)  # noqa: S101  # as multiplications have
    work = kernel.work._replace(weight_bytes=share * kernel.work.weight_bytes)
    return kernel._replace(work=work, terms=kernel_time(work, kernel.roof))
