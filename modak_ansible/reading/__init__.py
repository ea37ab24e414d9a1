"""What users write, read with its places into the model: a blueprint (TOSCA), a request (JSON), or a script alone."""
