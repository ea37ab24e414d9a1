"""The data model: what is trained, where, on what data, and the plan that joins them. Typed, without any I/O."""
