"""What compiles the moves on a level set: JAX, or PyTensor's functions with moves in NumPy."""
