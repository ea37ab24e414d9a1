"""Commands on deployed jobs: modak logs, results, cancel, hold, release, requeue, resume and undeploy."""
