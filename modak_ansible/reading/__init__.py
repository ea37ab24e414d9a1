"""Reads what users write into the model, keeping places: a blueprint (TOSCA), a request (JSON), or just a script."""
