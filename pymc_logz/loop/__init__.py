"""From the prior to a frozen plan: look, propose, blend, try, widen."""
