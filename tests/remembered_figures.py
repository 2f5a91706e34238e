"""Figures that diagnoses predict, each once: those of one server under one load predict the same ones many times."""

import pickle
from dataclasses import replace

from roofline.questions import diagnosis, fault_finding, faults, posterior

#: Modules that have their own name for `predicted_figures`.
ASKING = (diagnosis, fault_finding, faults, posterior)


def remembering(predict=diagnosis.predicted_figures):
    """`predict`, which computes the figures of equal runs once."""
    known, kept = {}, {}

    def content(record):  # one that many runs share is written once; it is kept, so that its identity stays its own
        if id(record) not in kept:
            kept[id(record)] = record, pickle.dumps(record)
        return kept[id(record)][1]

    def remembered(run):
        model, gpu = run.deployment.model, run.deployment.gpu
        rest = replace(run.deployment, model=None, gpu=None), run.workload, run.kernels, run.near
        key = content(model), content(gpu), pickle.dumps(rest)
        if key not in known:
            known[key] = predict(run)
        return known[key]

    return remembered
