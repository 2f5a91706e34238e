"""Errors of the closed forms by region. Written by accuracy/build_load_page.py with docs/load.md: not to be edited."""

from __future__ import annotations

#: Cases of a region, then mean and 90th percentile of |closed form / simulation - 1| of TTFT, TPOT and the p99 of both.
ERRORS: dict[str, tuple[int, *tuple[float | None, ...]]] = {
    "random arrivals, decode first, 1 token, outside":
        (22, 0.131, 0.097, None, None, 0.669, 0.611, None, None),
    "random arrivals, decode first, 1 token, util above 80 %":
        (17, 0.09, 0.23, None, None, 0.334, 0.627, None, None),
    "random arrivals, decode first, 2 to 19 tokens, inside":
        (20, 0.027, 0.053, 0.025, 0.038, 0.039, 0.077, 0.171, 0.391),
    "random arrivals, decode first, 2 to 19 tokens, outside":
        (22, 0.146, 0.459, 0.208, 0.556, 0.151, 0.327, 0.183, 0.287),
    "random arrivals, decode first, 2 to 19 tokens, util above 80 %":
        (22, 0.274, 0.6, 0.087, 0.161, 0.347, 0.751, 0.315, 1.416),
    "random arrivals, decode first, 20 tokens and more, inside":
        (22, 0.012, 0.038, 0.01, 0.03, 0.042, 0.102, 0.035, 0.08),
    "random arrivals, decode first, 20 tokens and more, outside":
        (22, 0.035, 0.09, 0.037, 0.076, 0.097, 0.212, 0.068, 0.162),
    "random arrivals, decode first, 20 tokens and more, util above 80 %":
        (22, 0.368, 0.784, 0.072, 0.135, 0.409, 0.835, 0.242, 0.547),
    "random arrivals, prompts first, 1 token, outside":
        (22, 0.027, 0.076, None, None, 0.307, 0.597, None, None),
    "random arrivals, prompts first, 1 token, util above 80 %":
        (16, 0.125, 0.422, None, None, 0.431, 1.086, None, None),
    "random arrivals, 2 to 19 tokens, inside":
        (24, 0.029, 0.054, 0.034, 0.136, 0.043, 0.083, 0.175, 0.391),
    "random arrivals, prompts first, 2 to 19 tokens, outside":
        (22, 0.061, 0.13, 0.178, 0.312, 0.277, 0.485, 0.242, 0.501),
    "random arrivals, prompts first, 2 to 19 tokens, util above 80 %":
        (22, 0.522, 1.104, 0.926, 2.545, 0.665, 1.0, 0.752, 1.753),
    "random arrivals, prompts first, 20 tokens and more, inside":
        (22, 0.006, 0.01, 0.009, 0.017, 0.045, 0.097, 0.046, 0.074),
    "random arrivals, prompts first, 20 tokens and more, outside":
        (22, 0.084, 0.173, 0.082, 0.19, 0.199, 0.516, 0.164, 0.301),
    "random arrivals, prompts first, 20 tokens and more, util above 80 %":
        (22, 0.401, 0.987, 0.257, 1.109, 0.618, 1.0, 0.329, 1.028),
    "users, decode first, 1 token, outside":
        (22, 0.019, 0.039, None, None, 0.069, 0.18, None, None),
    "users, decode first, 2 to 19 tokens, inside":
        (15, 0.038, 0.096, 0.013, 0.043, 0.096, 0.222, 0.092, 0.233),
    "users, decode first, 2 to 19 tokens, outside":
        (22, 0.123, 0.297, 0.267, 0.764, 0.329, 0.747, 0.104, 0.267),
    "users, decode first, 20 tokens and more, inside":
        (22, 0.025, 0.043, 0.007, 0.011, 0.049, 0.092, 0.013, 0.026),
    "users, decode first, 20 tokens and more, outside":
        (22, 0.067, 0.136, 0.056, 0.084, 0.071, 0.141, 0.051, 0.129),
    "users, prompts first, 1 token, outside":
        (22, 0.026, 0.083, None, None, 0.073, 0.203, None, None),
    "users, 2 to 19 tokens, inside":
        (20, 0.03, 0.077, 0.02, 0.086, 0.083, 0.183, 0.097, 0.233),
    "users, prompts first, 2 to 19 tokens, outside":
        (22, 0.03, 0.084, 0.085, 0.166, 0.102, 0.214, 0.108, 0.314),
    "users, prompts first, 20 tokens and more, inside":
        (22, 0.028, 0.025, 0.012, 0.031, 0.098, 0.275, 0.053, 0.134),
    "users, prompts first, 20 tokens and more, outside":
        (22, 0.049, 0.122, 0.024, 0.058, 0.113, 0.275, 0.141, 0.247),
    "a run with its start, 1 token, outside":
        (22, 0.103, 0.502, None, None, None, None, None, None),
    "a run with its start, 2 to 19 tokens, outside":
        (22, 0.088, 0.182, 0.264, 0.456, None, None, None, None),
    "a run with its start, 20 tokens and more, outside":
        (22, 0.127, 0.261, 0.033, 0.075, None, None, None, None),
    "speculative decoding, inside":
        (22, 0.017, 0.029, 0.032, 0.088, 0.051, 0.096, 0.076, 0.186),
    "speculative decoding, outside":
        (22, 0.059, 0.161, 0.162, 0.585, 0.177, 0.381, 0.326, 1.0),
    "speculative decoding, util above 80 %":
        (22, 0.507, 1.505, 0.483, 1.358, 0.64, 1.0, 0.741, 2.65),
    "prompt cache, inside":
        (22, 0.027, 0.06, 0.022, 0.054, 0.064, 0.174, 0.055, 0.129),
    "prompt cache, outside":
        (22, 0.057, 0.127, 0.087, 0.18, 0.196, 0.417, 0.14, 0.311),
    "prompt cache, util above 80 %":
        (22, 0.368, 0.992, 0.158, 0.417, 0.452, 0.994, 0.19, 0.702),
    "arrivals that bunch, inside":
        (22, 0.022, 0.066, 0.016, 0.038, 0.087, 0.154, 0.045, 0.112),
    "arrivals that bunch, outside":
        (22, 0.263, 1.0, 0.489, 1.381, 0.42, 1.0, 0.719, 1.312),
    "arrivals that bunch, util above 80 %":
        (22, 0.911, 1.0, 0.869, 1.582, 1.182, 1.0, 0.825, 1.0),
    "a router's arrivals, inside":
        (20, 0.02, 0.042, 0.014, 0.03, 0.065, 0.141, 0.036, 0.075),
    "a router's arrivals, outside":
        (22, 0.153, 0.507, 0.371, 0.827, 0.271, 0.664, 0.263, 0.675),
    "a router's arrivals, util above 80 %":
        (22, 0.364, 0.572, 0.222, 0.697, 0.544, 1.0, 0.151, 0.42),
    "sessions, inside":
        (22, 0.015, 0.034, 0.01, 0.02, 0.049, 0.101, 0.069, 0.114),
    "sessions, outside":
        (22, 0.123, 0.238, 0.163, 0.403, 0.211, 0.568, 0.314, 0.533),
    "separate pools, inside":
        (18, 0.009, 0.038, 0.006, 0.019, 0.059, 0.176, 0.019, 0.078),
    "separate pools, outside":
        (70, 0.069, 0.212, 0.015, 0.028, 0.234, 0.379, 0.058, 0.127),
}  # fmt: skip
