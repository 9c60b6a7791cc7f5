"""References of the methods that a run used."""
