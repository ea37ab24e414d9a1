"""TOSCA types, and a topology checked against them."""
