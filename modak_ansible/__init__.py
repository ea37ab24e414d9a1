"""Plans AI trainings with measured models and deploys them as optimised containers."""
