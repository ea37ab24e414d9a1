"""The controller's side of each stage of a deployment; the action plugins of the roles are thin coats over it."""
