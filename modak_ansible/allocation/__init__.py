"""What a job requests: options, processes, limits and site rules, settled before planning.

``allocate`` is the entry point and settles a request once; the other modules decide for it:

options         what is requested, where job options, resources and ranks say it in several ways
process_layout  how many processes a parallel program has on each of how many nodes
site_rules      what the site's administrators add for jobs of this kind
limits          whether the target has that much
"""
