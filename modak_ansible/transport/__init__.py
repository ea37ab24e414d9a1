"""How a target is reached: ssh, secrets, rsync, and a connection that is reopened."""
