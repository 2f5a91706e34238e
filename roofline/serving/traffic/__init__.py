"""A server under a load: queues, their tails, and a simulation of every step."""
