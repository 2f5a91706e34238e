"""What a user sees: latencies, throughputs, knees. Arithmetic on passes."""
