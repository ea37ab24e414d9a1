"""Libraries whose own loop trains: Keras, Lightning and Transformers, told by their callbacks."""
