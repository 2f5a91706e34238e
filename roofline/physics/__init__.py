"""The cost of one forward pass: kernels, their work, and the one equation that divides it by rates."""
