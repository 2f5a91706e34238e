"""A server under a load: queueing equations, tail latencies, and a simulation of every step."""
