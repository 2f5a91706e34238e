"""Kinds of layers: their matrices, their cache or state, and their kernels."""
