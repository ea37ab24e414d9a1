"""What is done to jobs that are deployed: modak logs, results, cancel, hold, release, requeue, resume and undeploy."""
