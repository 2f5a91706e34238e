"""Errors of the closed forms by region. Written by accuracy/build_load_page.py with docs/load.md: not to be edited."""

from __future__ import annotations

#: Cases of a region, then mean and 90th percentile of |closed form / simulation - 1| of TTFT, TPOT and the p99 of both.
ERRORS: dict[str, tuple[int, *tuple[float | None, ...]]] = {
    "random arrivals, decode first, 1 token, outside":
        (22, 0.038, 0.083, None, None, 0.362, 0.79, None, None),
    "random arrivals, decode first, 1 token, util above 80 %":
        (17, 0.107, 0.309, None, None, 0.296, 0.724, None, None),
    "random arrivals, decode first, 2 to 19 tokens, inside":
        (16, 0.046, 0.082, 0.04, 0.075, 0.051, 0.115, 0.245, 0.753),
    "random arrivals, decode first, 2 to 19 tokens, outside":
        (22, 0.148, 0.474, 0.209, 0.593, 0.155, 0.317, 0.186, 0.291),
    "random arrivals, decode first, 2 to 19 tokens, util above 80 %":
        (22, 0.236, 0.488, 0.081, 0.149, 0.322, 0.576, 0.381, 1.891),
    "random arrivals, decode first, 20 tokens and more, inside":
        (22, 0.011, 0.025, 0.011, 0.033, 0.044, 0.112, 0.036, 0.096),
    "random arrivals, decode first, 20 tokens and more, outside":
        (22, 0.045, 0.113, 0.046, 0.124, 0.102, 0.201, 0.074, 0.154),
    "random arrivals, decode first, 20 tokens and more, util above 80 %":
        (22, 0.353, 0.788, 0.102, 0.209, 0.455, 0.904, 0.241, 0.543),
    "random arrivals, prompts first, 1 token, outside":
        (22, 0.027, 0.074, None, None, 0.341, 0.637, None, None),
    "random arrivals, prompts first, 1 token, util above 80 %":
        (16, 0.132, 0.429, None, None, 0.385, 0.992, None, None),
    "random arrivals, 2 to 19 tokens, inside":
        (19, 0.043, 0.082, 0.047, 0.207, 0.053, 0.115, 0.243, 0.753),
    "random arrivals, prompts first, 2 to 19 tokens, outside":
        (22, 0.063, 0.115, 0.184, 0.374, 0.281, 0.541, 0.24, 0.499),
    "random arrivals, prompts first, 2 to 19 tokens, util above 80 %":
        (22, 0.562, 1.266, 0.951, 2.581, 0.694, 1.0, 0.759, 1.926),
    "random arrivals, prompts first, 20 tokens and more, inside":
        (22, 0.007, 0.01, 0.009, 0.019, 0.04, 0.105, 0.045, 0.071),
    "random arrivals, prompts first, 20 tokens and more, outside":
        (22, 0.097, 0.2, 0.091, 0.181, 0.225, 0.613, 0.176, 0.289),
    "random arrivals, prompts first, 20 tokens and more, util above 80 %":
        (22, 0.414, 0.989, 0.298, 1.193, 0.619, 1.0, 0.415, 1.089),
    "users, decode first, 1 token, outside":
        (22, 0.023, 0.052, None, None, 0.071, 0.185, None, None),
    "users, decode first, 2 to 19 tokens, inside":
        (14, 0.022, 0.049, 0.016, 0.047, 0.072, 0.168, 0.05, 0.138),
    "users, decode first, 2 to 19 tokens, outside":
        (22, 0.103, 0.254, 0.255, 0.718, 0.27, 0.804, 0.12, 0.281),
    "users, decode first, 20 tokens and more, inside":
        (22, 0.018, 0.033, 0.009, 0.022, 0.047, 0.117, 0.014, 0.025),
    "users, decode first, 20 tokens and more, outside":
        (22, 0.07, 0.23, 0.059, 0.081, 0.074, 0.149, 0.047, 0.107),
    "users, prompts first, 1 token, outside":
        (22, 0.022, 0.058, None, None, 0.071, 0.219, None, None),
    "users, 2 to 19 tokens, inside":
        (18, 0.019, 0.049, 0.024, 0.105, 0.063, 0.168, 0.103, 0.546),
    "users, prompts first, 2 to 19 tokens, outside":
        (22, 0.039, 0.104, 0.055, 0.12, 0.101, 0.2, 0.139, 0.314),
    "users, prompts first, 20 tokens and more, inside":
        (22, 0.022, 0.062, 0.012, 0.04, 0.09, 0.161, 0.048, 0.102),
    "users, prompts first, 20 tokens and more, outside":
        (22, 0.047, 0.111, 0.032, 0.128, 0.117, 0.272, 0.133, 0.28),
    "a run with its start, 1 token, outside":
        (22, 0.125, 0.69, None, None, None, None, None, None),
    "a run with its start, 2 to 19 tokens, outside":
        (22, 0.079, 0.176, 0.257, 0.386, None, None, None, None),
    "a run with its start, 20 tokens and more, outside":
        (22, 0.126, 0.278, 0.036, 0.086, None, None, None, None),
    "speculative decoding, inside":
        (22, 0.018, 0.047, 0.038, 0.095, 0.051, 0.082, 0.072, 0.159),
    "speculative decoding, outside":
        (22, 0.062, 0.161, 0.157, 0.58, 0.183, 0.408, 0.321, 1.0),
    "speculative decoding, util above 80 %":
        (22, 0.533, 1.608, 0.462, 1.31, 0.657, 1.0, 0.761, 2.611),
    "prompt cache, inside":
        (22, 0.02, 0.042, 0.02, 0.059, 0.056, 0.107, 0.039, 0.09),
    "prompt cache, outside":
        (22, 0.055, 0.075, 0.058, 0.122, 0.211, 0.596, 0.18, 0.375),
    "prompt cache, util above 80 %":
        (22, 0.377, 0.993, 0.166, 0.522, 0.468, 0.994, 0.237, 0.703),
    "separate pools, inside":
        (18, 0.011, 0.041, 0.005, 0.009, 0.064, 0.168, 0.014, 0.045),
    "separate pools, outside":
        (70, 0.065, 0.199, 0.012, 0.025, 0.232, 0.362, 0.052, 0.115),
}  # fmt: skip
