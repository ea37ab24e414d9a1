"""How the processes of a training use the cores and the memory of a machine."""
