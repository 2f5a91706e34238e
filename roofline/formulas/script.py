"""Answers as functions of JavaScript, for a page that has nothing else: what a load iterates are loops there, too."""

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

__all__ = ["latency_graph", "latency_script"]

_UNITS = {"isl": "tokens", "osl": "tokens", "batch": "sequences", "concurrency": "requests", "request_rate": "1/s"}


def latency_graph(deployment: Deployment, workload: Workload) -> tuple[Graph, tuple[Real, Real]]:
    """Graph of the mean latencies of a deployment, for all lengths and loads of one kind.

    Args:
        deployment: model, GPU, plan, precision, basis, engine and replicas.
        workload: whose kind of load, spread of lengths and cache stay as they are.

    Returns:
        The graph, whose inputs are isl, osl, the load by its name and prefix; TTFT and TPOT in it [s].

    Raises:
        BadInput: a cache whose hit rate is not known before the prefix is.
    """
    if workload.cache is not None and workload.cache.hit is None and workload.cache.zipf is not None:
        raise BadInput("a hit rate by Zipf's law is no formula of the prefix; give cache_hit")
    graph = Graph()
    load = "batch" if workload.load == BURST else workload.load
    inputs: dict[str, Any] = {name: graph.input(name) for name in ("isl", "osl", load, "prefix")}
    return graph, mean_latencies(deployment, replace(workload, **inputs))


def latency_script(deployment: Deployment, workload: Workload, name: str = "latencies") -> str:
    """A function of JavaScript that gives the mean latencies of a deployment, for all lengths and loads of one kind.

    Args:
        deployment: as of `latency_graph`.
        workload: as of `latency_graph`.
        name: of the function [text].

    Returns:
        Its source: a function of isl, osl, batch, concurrency or request_rate, and prefix, which gives TTFT and TPOT
        as an array [text].

    Raises:
        BadInput: a cache whose hit rate is not known before the prefix is.
    """
    graph, latencies = latency_graph(deployment, workload)
    units = ", ".join(f"{node.args[0]} [{_UNITS.get(node.args[0], 'tokens')}]" for node in graph.inputs)
    plan = f"tp {deployment.plan.tp}, pp {deployment.plan.pp}, ep {deployment.plan.ep}, dp {deployment.plan.dp}"
    case = f"{deployment.model.short_name} on {deployment.num_gpus} x {deployment.gpu.name}, {plan}"
    head = f"/** Mean TTFT and TPOT [s] of {case}, by {units}. */"
    return f"{head}\n{javascript_source(name, latencies, graph.inputs)}\n"
