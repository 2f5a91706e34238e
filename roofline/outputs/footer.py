"""The whole case at the foot of a picture, so that a slide needs no other words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from roofline.numbers.quantity import rounded
from roofline.physics.plan import Deployment
from roofline.serving.latency import Workload
from roofline.serving.prediction import Prediction
from roofline.serving.quantization import summary
from roofline.serving.shown import gpus_text, plan_text
from roofline.serving.summary import fitted_on
from roofline.specs.workload import limits_words
from roofline.support.records import NamedTuple

_MOST = 4  # values of one fact that are written out


class Shown(NamedTuple):
    """A case of which there is no whole prediction."""

    deployment: Deployment
    workload: Workload
    slo: Mapping[str, float] = {}
    basis_detail: str = ""

    @property
    def engine(self) -> str:
        return str(self.deployment.engine.name)


def case_footer(
    predictions: Sequence[Prediction | Shown], varied: Sequence[str] = (), notes: Sequence[str] = ()
) -> str:
    """Model, formats, GPUs, plans, lengths, load, limits, engine, basis and version; what differs is listed.

    Args:
        predictions: one for each deployment in the picture.
        varied: facts that are on an axis: ``load``, ``lengths``, ``plan``.
        notes: what else a reader must know.

    >>> import roofline as rl
    >>> text = case_footer([rl.predict("llama-3.1-8b", gpu, basis="ideal") for gpu in ("h100-sxm", "b200")])
    >>> text.startswith("llama-3.1-8b; weights bf16, KV cache bf16, compute bf16; 1x h100-sxm (tp 1) / 1x b200 (tp 1)")
    True
    """
    facts = [_facts(prediction) for prediction in predictions]
    parts = []
    for name in facts[0]:
        texts = list(dict.fromkeys(fact[name] for fact in facts if fact[name]))
        more = f" and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
        if texts and name not in varied:
            parts.append(" / ".join(texts[:_MOST]) + more)
    return "; ".join([*parts, *notes, f"roofline {version('roofline')}"])


def _facts(prediction: Prediction | Shown) -> Mapping[str, str]:
    deployment, workload = prediction.deployment, prediction.workload
    weights, cache, compute = summary(deployment.model, deployment.quantization)
    engine = deployment.engine
    plan = plan_text(deployment.plan, replicas=deployment.replicas)
    cached = f", {workload.prefix:g} of {workload.isl:g} cached" if workload.prefix else ""
    spread = "" if workload.lengths is None else f", lengths {workload.lengths}"
    fitted = fitted_on(engine)
    named = "no engine" if prediction.engine == "none" else f"engine {engine.name}{f' ({fitted})' if fitted else ''}"
    slo = limits_words(prediction.slo, is_mean=workload.is_mean)
    return {
        "model": str(deployment.model.short_name),
        "formats": f"weights {weights}, KV cache {cache}, compute {compute}",
        "plan": f"{gpus_text(deployment.gpu.name, deployment.num_gpus)} ({plan})",
        "lengths": f"{rounded(float(workload.text))} tokens in, {rounded(float(workload.osl))} out{cached}{spread}",
        "load": workload.load.words(rounded(float(workload.load.amount))),
        "slo": f"SLO {slo}" if slo else "",
        "engine": named,
        "basis": prediction.basis_detail,
    }
