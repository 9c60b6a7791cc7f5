"""What a user of PyMC would run on a model, each method as it is called by default."""
