"""What is a target, and has it what a deployment needs? Surveyed through Ansible, judged and written down here."""
