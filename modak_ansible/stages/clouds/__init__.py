"""Cloud machines: one module per provider, all with one contract, so that none is created or paid for twice."""
