"""Analyses of predictions: sensitivities, inverse questions, sizing, goodput, comparisons and measurements."""
