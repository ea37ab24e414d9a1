#!/usr/bin/python
"""How this machine reaches packages: the settings that a testbed, as a site of its own, takes over."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.modak.hpc.plugins.module_utils.target.core import site

DOCUMENTATION = r"""
module: testbed_site_info
short_description: Tell how this machine reaches packages
description:
  - Collects the certificate bundle, proxies, pip's configuration, the Debian mirror and apt's Acquire options of this
    machine, in the form that another root file system needs.
options:
  environment: {description: Environment of the user who asks., type: dict, required: true}
  bundle: {description: Where the certificate bundle will be in the other root file system., type: path, required: true}
author: [MODAK]
"""

EXAMPLES = r"""
- name: Look at the machine's own settings
  modak.hpc.testbed_site_info:
    environment:
      HOME: /home/me
    bundle: /etc/ssl/certs/ca-certificates.crt
"""

RETURN = r"""
mirror: {description: URL of the Debian mirror; empty when there is none., type: str, returned: always}
apt_here: {description: Options of apt as this machine needs them., type: list, elements: str, returned: always}
apt_there: {description: The same for the other root file system., type: list, elements: str, returned: always}
pip: {description: pip's settings by name., type: dict, returned: always}
environment: {description: Variables for every session there., type: dict, returned: always}
certificates: {description: Bundles whose sum is the bundle there., type: list, elements: str, returned: always}
folders: {description: Local folders that pip's settings name., type: list, elements: str, returned: always}
"""


def session_environment(environment, bundle):
    return {
        **site.proxies(environment),
        **{name: bundle for name in site.CERTIFICATE_VARIABLES if environment.get(name)},
    }


def main():
    module = AnsibleModule(
        supports_check_mode=True,
        argument_spec={
            "environment": {"type": "dict", "required": True},
            "bundle": {"type": "path", "required": True},
        },
    )
    environment, bundle = module.params["environment"], module.params["bundle"]
    settings = site.pip_settings(environment)
    here, there = site.apt_options(bundle)
    module.exit_json(
        changed=False,
        mirror=site.debian_mirror(),
        apt_here=here,
        apt_there=there,
        pip={**settings, "cert": bundle} if "cert" in settings else settings,
        environment=session_environment(environment, bundle),
        certificates=site.certificate_bundles(environment, settings),
        folders=site.pip_folders(settings),
    )


if __name__ == "__main__":
    main()
