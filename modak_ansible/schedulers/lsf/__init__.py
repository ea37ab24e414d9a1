"""IBM Spectrum LSF: its jobs, what is said of them, what a cluster has, and the directives of a job."""
