"""Results of benchmark tools, tables of timed kernels, traces of requests."""
