"""What a job asks for: its options, its processes, the limits and the rules of the site, settled before planning.

``allocate`` is the door, and settles a request once; the others decide for it:

options         what is asked for, where job options, resources and ranks say it in several ways
process_layout  how many processes a parallel program has on each of how many nodes
site_rules      what the site's administrators add for jobs of this kind
limits          whether the target has so much
"""
