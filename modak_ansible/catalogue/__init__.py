"""The known framework builds, base images and datasets: one YAML file each."""

from modak_ansible.catalogue.entry import Base, Catalogue, Entry, KnownDataset
from modak_ansible.catalogue.reader import load_catalogue

__all__ = ["Base", "Catalogue", "Entry", "KnownDataset", "load_catalogue"]
