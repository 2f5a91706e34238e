"""Kinds of layers: each file says once of what matrices a kind is made, what it keeps, and which kernels it runs."""
