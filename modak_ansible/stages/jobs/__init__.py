"""The controller's side of jobs: run, followed, acted on, recorded."""
