"""Mean latencies as JavaScript functions without dependencies; the iterations of a load are loops there too."""

from __future__ import annotations

from typing import Any

from roofline.errors import BadInput
from roofline.ops import Real
from roofline.physics.plan import Deployment
from roofline.records import replace
from roofline.serving.latency import BURST, Workload
from roofline.serving.traffic.load import mean_latencies
from roofline.symbolic.graph import Graph
from roofline.symbolic.program import javascript_source

_UNITS = {"isl": "tokens", "osl": "tokens", "batch": "sequences", "concurrency": "requests", "request_rate": "1/s"}


def latency_graph(deployment: Deployment, workload: Workload) -> tuple[Graph, tuple[Real, Real]]:
    """Graph of TTFT and TPOT [s], whose inputs are isl, osl, prefix and the workload's load; all else is constant."""
    if workload.cache is not None and workload.cache.hit is None and workload.cache.zipf is not None:
        raise BadInput("a hit rate by Zipf's law is no formula of the prefix; give cache_hit")
    graph = Graph()
    load = "batch" if workload.load == BURST else workload.load
    inputs: dict[str, Any] = {name: graph.input(name) for name in ("isl", "osl", load, "prefix")}
    return graph, mean_latencies(deployment, replace(workload, **inputs))


def latency_script(deployment: Deployment, workload: Workload, name: str = "latencies") -> str:
    """Source of a JavaScript function of the inputs of `latency_graph` that returns [TTFT, TPOT]."""
    graph, latencies = latency_graph(deployment, workload)
    units = ", ".join(f"{node.args[0]} [{_UNITS.get(node.args[0], 'tokens')}]" for node in graph.inputs)
    plan = f"tp {deployment.plan.tp}, pp {deployment.plan.pp}, ep {deployment.plan.ep}, dp {deployment.plan.dp}"
    case = f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}, {plan}"
    head = f"/** Mean TTFT and TPOT [s] of {case}, by {units}. */"
    return f"{head}\n{javascript_source(name, latencies, graph.inputs)}\n"
