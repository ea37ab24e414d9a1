"""The machines of clouds: a module a provider, all with one contract, so that none is made or paid for twice."""
