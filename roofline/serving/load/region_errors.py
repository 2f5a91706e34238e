"""Errors of the closed forms by region. Written by accuracy/build_load_page.py with docs/load.md: not to be edited."""

from __future__ import annotations

#: Cases of a region, then mean and 90th percentile of |closed form / simulation - 1| of TTFT, TPOT and the p99 of both.
ERRORS: dict[str, tuple[int, *tuple[float | None, ...]]] = {
    "random arrivals, decode first, 1 token, outside":
        (12, 0.104, 0.376, None, None, 0.476, 0.801, None, None),
    "random arrivals, decode first, 1 token, util above 80 %":
        (10, 0.164, 0.258, None, None, 0.2, 0.331, None, None),
    "random arrivals, inside":
        (32, 0.021, 0.055, 0.027, 0.057, 0.068, 0.127, 0.101, 0.21),
    "random arrivals, decode first, 2 to 19 tokens, outside":
        (12, 0.131, 0.361, 0.209, 0.422, 0.183, 0.456, 1.219, 3.675),
    "random arrivals, decode first, 2 to 19 tokens, util above 80 %":
        (12, 0.315, 0.56, 0.081, 0.133, 0.372, 0.63, 3.7, 7.461),
    "random arrivals, decode first, 20 tokens and more, inside":
        (12, 0.013, 0.029, 0.031, 0.058, 0.052, 0.107, 0.081, 0.176),
    "random arrivals, decode first, 20 tokens and more, outside":
        (12, 0.044, 0.074, 0.05, 0.165, 0.186, 0.538, 0.09, 0.204),
    "random arrivals, decode first, 20 tokens and more, util above 80 %":
        (12, 0.64, 1.523, 0.122, 0.198, 0.795, 1.708, 1.511, 3.912),
    "random arrivals, prompts first, 1 token, outside":
        (12, 0.033, 0.08, None, None, 0.332, 0.613, None, None),
    "random arrivals, 1 token, util above 80 %":
        (16, 0.372, 1.676, None, None, 0.418, 1.047, None, None),
    "random arrivals, prompts first, 2 to 19 tokens, outside":
        (12, 0.078, 0.145, 0.334, 0.681, 0.375, 1.0, 0.477, 1.0),
    "random arrivals, prompts first, 2 to 19 tokens, util above 80 %":
        (12, 0.61, 0.996, 0.677, 1.766, 0.892, 1.0, 0.585, 1.0),
    "random arrivals, prompts first, 20 tokens and more, inside":
        (12, 0.008, 0.025, 0.011, 0.025, 0.065, 0.119, 0.049, 0.102),
    "random arrivals, prompts first, 20 tokens and more, outside":
        (12, 0.259, 0.211, 0.316, 0.446, 0.58, 1.0, 0.425, 0.453),
    "random arrivals, prompts first, 20 tokens and more, util above 80 %":
        (12, 0.54, 0.982, 0.256, 0.296, 0.715, 1.0, 0.424, 1.0),
    "users, decode first, 1 token, outside":
        (12, 0.016, 0.05, None, None, 0.055, 0.135, None, None),
    "users, inside":
        (33, 0.02, 0.05, 0.022, 0.092, 0.046, 0.116, 0.081, 0.168),
    "users, decode first, 2 to 19 tokens, outside":
        (12, 0.113, 0.27, 0.263, 0.377, 0.306, 0.427, 0.796, 1.344),
    "users, decode first, 20 tokens and more, inside":
        (12, 0.021, 0.034, 0.013, 0.022, 0.057, 0.174, 0.035, 0.079),
    "users, decode first, 20 tokens and more, outside":
        (12, 0.097, 0.185, 0.127, 0.081, 0.136, 0.243, 0.159, 0.438),
    "users, prompts first, 1 token, outside":
        (12, 0.028, 0.122, None, None, 0.125, 0.14, None, None),
    "users, prompts first, 2 to 19 tokens, outside":
        (12, 0.116, 0.323, 0.25, 0.499, 0.194, 0.466, 0.535, 1.0),
    "users, prompts first, 20 tokens and more, inside":
        (12, 0.017, 0.031, 0.015, 0.028, 0.041, 0.092, 0.027, 0.111),
    "users, prompts first, 20 tokens and more, outside":
        (12, 0.141, 0.418, 0.063, 0.125, 0.21, 0.472, 0.188, 0.392),
    "a run with its start, 1 token, outside":
        (12, 0.181, 0.962, None, None, None, None, None, None),
    "a run with its start, 2 to 19 tokens, outside":
        (12, 0.206, 0.519, 0.496, 1.0, None, None, None, None),
    "a run with its start, 20 tokens and more, outside":
        (12, 0.174, 0.334, 0.109, 0.085, None, None, None, None),
    "speculative decoding, inside":
        (12, 0.019, 0.033, 0.049, 0.121, 0.049, 0.08, 0.116, 0.252),
    "speculative decoding, outside":
        (12, 0.067, 0.142, 0.244, 0.913, 0.323, 0.622, 0.709, 2.646),
    "speculative decoding, util above 80 %":
        (12, 0.5, 1.553, 0.4, 0.572, 0.89, 1.159, 0.939, 2.118),
    "prompt cache, inside":
        (12, 0.022, 0.051, 0.035, 0.096, 0.058, 0.083, 0.055, 0.112),
    "prompt cache, outside":
        (12, 0.128, 0.161, 0.195, 0.593, 0.409, 1.0, 0.131, 0.422),
    "prompt cache, util above 80 %":
        (12, 0.22, 0.549, 0.172, 0.973, 0.446, 1.0, 0.26, 1.015),
    "separate pools, inside":
        (14, 0.005, 0.01, 0.002, 0.005, 0.058, 0.117, 0.01, 0.031),
    "separate pools, outside":
        (34, 0.078, 0.144, 0.017, 0.025, 0.251, 0.422, 0.05, 0.115),
}  # fmt: skip
