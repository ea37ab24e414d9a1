# shellcheck shell=sh
# Login shells see what ssh sessions see.
set -a
. /etc/environment
set +a
