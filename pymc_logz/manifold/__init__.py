"""Inputs that give exactly what was observed: the set they form, starting points, evidence."""
