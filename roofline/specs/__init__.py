"""What things are: records of models, GPUs, engines and kernels, without files."""
