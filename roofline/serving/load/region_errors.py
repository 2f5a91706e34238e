"""Errors of the closed forms by region. Written by accuracy/build_load_page.py with docs/load.md: not to be edited."""

from __future__ import annotations

#: Cases of a region, then mean and 90th percentile of |closed form / simulation - 1| of TTFT, TPOT and the p99 of both.
ERRORS: dict[str, tuple[int, *tuple[float | None, ...]]] = {
    "random arrivals, decode first, 1 token, outside":
        (22, 0.026, 0.072, None, None, 0.358, 0.79, None, None),
    "random arrivals, decode first, 1 token, util above 80 %":
        (17, 0.104, 0.306, None, None, 0.298, 0.724, None, None),
    "random arrivals, decode first, 2 to 19 tokens, inside":
        (16, 0.054, 0.098, 0.038, 0.064, 0.067, 0.143, 0.214, 0.578),
    "random arrivals, decode first, 2 to 19 tokens, outside":
        (22, 0.317, 1.735, 0.246, 0.6, 0.737, 4.326, 1.719, 3.678),
    "random arrivals, decode first, 2 to 19 tokens, util above 80 %":
        (22, 0.235, 0.469, 0.078, 0.142, 0.297, 0.52, 5.302, 15.72),
    "random arrivals, decode first, 20 tokens and more, inside":
        (22, 0.012, 0.025, 0.011, 0.033, 0.045, 0.073, 0.048, 0.151),
    "random arrivals, decode first, 20 tokens and more, outside":
        (22, 0.045, 0.097, 0.049, 0.126, 0.202, 0.553, 0.092, 0.258),
    "random arrivals, decode first, 20 tokens and more, util above 80 %":
        (22, 0.382, 0.787, 0.103, 0.21, 0.389, 0.843, 1.127, 3.908),
    "random arrivals, prompts first, 1 token, outside":
        (22, 0.035, 0.074, None, None, 0.33, 0.637, None, None),
    "random arrivals, prompts first, 1 token, util above 80 %":
        (16, 0.257, 0.548, None, None, 0.454, 1.152, None, None),
    "random arrivals, 2 to 19 tokens, inside":
        (19, 0.056, 0.128, 0.044, 0.094, 0.06, 0.143, 0.222, 0.578),
    "random arrivals, prompts first, 2 to 19 tokens, outside":
        (22, 0.063, 0.146, 0.283, 0.488, 0.383, 1.0, 0.385, 1.0),
    "random arrivals, prompts first, 2 to 19 tokens, util above 80 %":
        (22, 0.567, 1.445, 0.829, 1.92, 0.819, 1.0, 0.728, 1.772),
    "random arrivals, prompts first, 20 tokens and more, inside":
        (22, 0.008, 0.016, 0.011, 0.016, 0.047, 0.087, 0.04, 0.084),
    "random arrivals, prompts first, 20 tokens and more, outside":
        (22, 0.179, 0.438, 0.15, 0.236, 0.401, 1.0, 0.185, 0.369),
    "random arrivals, prompts first, 20 tokens and more, util above 80 %":
        (22, 0.477, 0.996, 0.327, 1.36, 0.685, 1.0, 0.462, 1.049),
    "users, decode first, 1 token, outside":
        (22, 0.022, 0.052, None, None, 0.066, 0.175, None, None),
    "users, decode first, 2 to 19 tokens, inside":
        (13, 0.03, 0.096, 0.015, 0.039, 0.053, 0.11, 0.042, 0.076),
    "users, decode first, 2 to 19 tokens, outside":
        (22, 0.096, 0.269, 0.261, 0.377, 0.311, 0.789, 1.017, 3.088),
    "users, decode first, 20 tokens and more, inside":
        (22, 0.031, 0.053, 0.01, 0.022, 0.06, 0.12, 0.015, 0.03),
    "users, decode first, 20 tokens and more, outside":
        (22, 0.073, 0.185, 0.074, 0.083, 0.076, 0.223, 0.114, 0.207),
    "users, prompts first, 1 token, outside":
        (22, 0.023, 0.058, None, None, 0.068, 0.14, None, None),
    "users, 2 to 19 tokens, inside":
        (18, 0.028, 0.096, 0.029, 0.085, 0.054, 0.195, 0.129, 0.549),
    "users, prompts first, 2 to 19 tokens, outside":
        (22, 0.137, 0.372, 0.322, 0.669, 0.201, 0.516, 0.436, 1.0),
    "users, prompts first, 20 tokens and more, inside":
        (22, 0.038, 0.097, 0.03, 0.092, 0.096, 0.191, 0.03, 0.078),
    "users, prompts first, 20 tokens and more, outside":
        (22, 0.23, 0.753, 0.098, 0.271, 0.247, 0.482, 0.205, 0.392),
    "a run with its start, 1 token, outside":
        (22, 0.168, 0.962, None, None, None, None, None, None),
    "a run with its start, 2 to 19 tokens, outside":
        (22, 0.177, 0.387, 0.35, 0.713, None, None, None, None),
    "a run with its start, 20 tokens and more, outside":
        (22, 0.248, 0.486, 0.112, 0.339, None, None, None, None),
    "speculative decoding, inside":
        (22, 0.017, 0.036, 0.037, 0.096, 0.049, 0.095, 0.087, 0.181),
    "speculative decoding, outside":
        (22, 0.075, 0.197, 0.176, 0.73, 0.228, 0.537, 0.378, 1.0),
    "speculative decoding, util above 80 %":
        (22, 0.734, 2.195, 0.499, 1.514, 0.764, 1.0, 1.88, 2.909),
    "prompt cache, inside":
        (22, 0.019, 0.045, 0.023, 0.06, 0.064, 0.139, 0.037, 0.07),
    "prompt cache, outside":
        (22, 0.078, 0.087, 0.109, 0.378, 0.312, 1.0, 0.159, 0.422),
    "prompt cache, util above 80 %":
        (22, 0.377, 0.996, 0.192, 0.703, 0.516, 1.0, 0.298, 1.0),
    "separate pools, inside":
        (18, 0.01, 0.049, 0.005, 0.01, 0.066, 0.226, 0.015, 0.042),
    "separate pools, outside":
        (70, 0.085, 0.165, 0.012, 0.025, 0.305, 0.535, 0.052, 0.115),
}  # fmt: skip
