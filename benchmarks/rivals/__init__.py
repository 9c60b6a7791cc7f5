"""Ours against what one would use instead, on targets whose log Z is known."""
