"""Readers of the configurations of model families."""
