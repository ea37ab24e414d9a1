"""IBM Spectrum LSF: its jobs, their states, what a cluster has, and a job's directives."""
