"""What a target is, and whether it has what a deployment needs: surveyed through Ansible, judged and recorded here."""
