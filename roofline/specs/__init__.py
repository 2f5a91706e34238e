"""Records of models, GPUs, engines, kernels and workloads; nothing here reads a file."""
