"""TOSCA in, model out; every mistake with its path, line and column."""
