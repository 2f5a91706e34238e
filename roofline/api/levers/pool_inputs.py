"""The two pools as callers write them: their deployments, the link between them, and GPU prices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from roofline.api.inputs.arguments import flag, scalar
from roofline.api.inputs.cache import CACHE
from roofline.api.inputs.case import LEAST_RATE
from roofline.api.inputs.load import BENCHMARK, UNDER_LOAD
from roofline.api.inputs.pools import POOLED, choice, pool_of
from roofline.api.predict import predict
from roofline.errors import BadInput, DoesNotFit, RooflineError, shown
from roofline.physics.plan import Deployment
from roofline.quantity import HOUR, MEGA, from_text, to_text
from roofline.records import replace
from roofline.serving.disaggregation import KV_LINKS, NVLINK, PCIE_LINK, RDMA, KvLink
from roofline.specs.gpu import PCIE, Gpu, Price
from roofline.specs.model import Model

_NO_GPUS = r"^0+\s*[x*\u00d7]|[x*\u00d7]0+$|:(?:tp|pp|dp)0"
_MOST_PRICE = 1000.0  # USD per GPU-hour
_LEAST_LINK = MEGA  # [B/s]


def deployment_of_pool(
    role: str, model: str | Model, pool: Any, options: Mapping[str, Any], price: Any = None
) -> tuple[Deployment, tuple[str, ...]]:
    """Deployment of one pool, and notes; its text overrides `options`, `price` is that of a GPU [USD/h]."""
    stated_options = {name: value for name, value in options.items() if value is not None}
    cached = next((name for name in CACHE if name in stated_options), None)
    if cached is not None:
        raise BadInput(f"separate pools take a prefix that is always there (prefix); leave out {cached}")
    try:
        text = scalar(pool)
        if isinstance(text, str) and re.search(_NO_GPUS, text.strip(), re.IGNORECASE):
            raise BadInput(f"{shown(text)} has no GPUs; write at least one replica, such as b200:tp4x1")
        parsed = pool_of(pool, options.get("specs"))
        if parsed is not None:
            stated_options = {
                name: value
                for name, value in stated_options.items()
                if name not in POOLED or name not in parsed.options
            }
        if parsed is None and not isinstance(pool, Gpu) and not isinstance(scalar(pool), str):
            raise BadInput(f"{shown(pool)} is no pool; write a GPU with its plan and replicas, such as b200:tp4x2")
        choice(pool, stated_options)
        prediction = predict(model, pool, **{**stated_options, "request_rate": LEAST_RATE})
    except RooflineError as error:
        raise type(error)(f"{role} pool: {error}") from None
    if type(prediction.workload.isl + prediction.workload.osl + prediction.workload.prefix) is not float:
        raise BadInput("disaggregate takes one case; lengths must be numbers, not arrays")
    if not prediction.fits:
        raise DoesNotFit(f"{role} pool: does not fit")
    deployment = prediction.deployment
    if price is not None:
        usd_per_s = _price(f"{role}_gpu_price", price)
        deployment = replace(deployment, gpu=replace(deployment.gpu, price=Price(usd_per_s, usd_per_s, usd_per_s)))
    notes = [text for text in prediction.warnings if not text.startswith((UNDER_LOAD, BENCHMARK, "tp ="))]
    return deployment, tuple(f"{role}: {text}" for text in notes)


def kv_link_between(prefill: Deployment, decode: Deployment, link: Any, layerwise: Any) -> KvLink:
    """The KV transfer link; None: NVLink where one scale-up domain holds both pools, else RDMA."""
    is_layerwise = flag("layerwise", layerwise)
    near, far = prefill.gpu, decode.gpu
    fits_domain = near.name == far.name and prefill.num_gpus + decode.num_gpus <= near.link.domain
    fits_domain = fits_domain and near.link.kind != PCIE
    kind = scalar(link)
    if kind is None:
        kind = NVLINK if fits_domain else RDMA
    if isinstance(kind, str) and kind.strip().lower() in KV_LINKS:
        kind = kind.strip().lower()
        if kind == NVLINK and not fits_domain:
            raise BadInput(
                f"kv_link = nvlink needs both pools in one scale-up domain: {prefill.num_gpus} {near.name} and "
                f"{decode.num_gpus} {far.name} are not; write rdma, or a bandwidth such as '50 GB/s'"
            )
        rates = []
        for gpu in (near, far):
            rate = {NVLINK: gpu.link.bandwidth, RDMA: gpu.scale_out, PCIE_LINK: gpu.host_link}[kind]
            if rate is None:
                what = "network per GPU" if kind == RDMA else "link to its host"
                raise BadInput(f"{gpu.name} states no {what}; give the bandwidth of a GPU, such as kv_link='50 GB/s'")
            rates.append(float(rate))
        return KvLink(kind, min(rates), is_layerwise)
    if type(kind) in (int, float) and not isinstance(kind, bool):
        rate = float(kind)
    elif isinstance(kind, str):
        try:
            rate = from_text(kind, "B/s")
        except BadInput as error:
            raise BadInput(f"kv_link = {shown(kind)} is neither nvlink, rdma, pcie nor a bandwidth: {error}") from None
    else:
        rate = 0.0
    if not rate >= _LEAST_LINK:
        raise BadInput(f"kv_link = {shown(link)} must be nvlink, rdma, pcie or a bandwidth such as '50 GB/s'")
    return KvLink("given", rate, is_layerwise)


def link_text(link: KvLink) -> str:
    """A link in a few words.

    >>> link_text(KvLink("rdma", 5e10))
    'rdma at 50 GB/s per GPU'
    """
    if link.bandwidth == float("inf"):
        return "an infinite link"
    name = "a link" if link.kind == "given" else link.kind
    return f"{name} at {to_text(float(link.bandwidth), 'B/s')} per GPU{', layer by layer' if link.is_layerwise else ''}"


def _price(name: str, value: Any) -> float:
    """Price of a GPU [USD/s]."""
    plain = scalar(value)
    if isinstance(plain, str):
        try:
            return from_text(plain, "USD/s")
        except BadInput as error:
            raise BadInput(f"{name}: {error}") from None
    if type(plain) not in (int, float) or not 0.0 < plain <= _MOST_PRICE:
        raise BadInput(f"{name} = {shown(value)} must be a price in USD per GPU and hour, such as 3.5")
    return float(plain) / HOUR
