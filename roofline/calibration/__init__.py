"""Constants of the one equation, fitted on timed kernels."""
