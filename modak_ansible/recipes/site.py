"""How a site's own settings reach a build without becoming part of the definition.

The image role puts certificates, pip's and apt's settings into a folder and names it in MODAK_SITE. Without the
variable, as in a build by hand, nothing happens. Nothing of the folder stays in the image.
"""

from __future__ import annotations

FOLDER = "/.modak-site"

SETUP = """%setup
    # the site's certificates, pip and apt settings, when the machine that builds has any
    root="${APPTAINER_ROOTFS:-$SINGULARITY_ROOTFS}"
    if [ -n "${MODAK_SITE:-}" ]; then
        cp -R "$MODAK_SITE" "$root/.modak-site"
        while read -r mount_point; do mkdir -p "$root$mount_point"; done < "$MODAK_SITE/mount-points"
    fi"""

ENTER = f"if [ -f {FOLDER}/environment ]; then . {FOLDER}/environment; fi"
LEAVE = f"rm -rf {FOLDER}"

# Of a Containerfile, whose steps are a shell each; the folder is mounted there while they run.
SHELL = f'SHELL ["/bin/sh", "-c", "{ENTER}; eval \\"$0\\""]'
