"""What tests share: statistical checks, contracts, models and paths with known answers."""
