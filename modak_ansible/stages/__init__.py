"""The controller's side of each stage of a deployment; the roles' action plugins are thin wrappers around it."""
