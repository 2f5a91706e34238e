"""Kinds of layers, one file each: their matrices, their cache or state, and their kernels."""
