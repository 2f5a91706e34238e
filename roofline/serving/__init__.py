"""Latencies, throughputs, knees and costs: what a user sees, computed from passes."""
