"""What stands for Amazon's EC2: moto's server, before it a door that hangs where it is told to, and behind it machines.

A machine is made of a testbed's box: with a file system, a name, processes and a network of its own, and an sshd at the
address that moto invented for it, with the keys of its user data. Their home folder is one. All is in a network of its
own: this script is started there, and ends with whoever started it.

usage: emulated_ec2.py FOLDER WORKSPACE ENTER...
"""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

import boto3
import yaml

MOTO, DOOR = 5000, 5001
FOLDER, WORKSPACE, ENTER = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
GATEWAY = "169.254.1.1"
# In the network of this script, and below it in that of the machine. The file system is the box's as it was made: its
# sudo lets everybody be root, as the first user of a cloud's image may.
START = r"""
set -eu
name=$1 public=$2 private=$3 number=$4 root=/tmp/ec2/$1
mkdir -p "$root"/upper "$root"/work "$root"/box
cat > "$root/keys"
cat > "$root/machine" <<'MACHINE'
set -eu
root=$1 host=$2
hostname "$host"
mount -t overlay machine -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/box"
cd "$root/box"
mount --rbind /home home
mount --rbind /dev dev
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p run/sshd run/lock
rm -rf etc/slurm/*.conf etc/munge/munge.key etc/apt/apt.conf.d/10suite
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$host" > etc/hosts
(umask 077; sed -n '/BEGIN/,/END/p' "$root/keys" > etc/ssh/machine_key)
sed '/BEGIN/,/END/d' "$root/keys" > etc/ssh/authorized
sed -e 's/^ListenAddress .*/ListenAddress 0.0.0.0:22/' -e 's,^HostKey .*,HostKey /etc/ssh/machine_key,' \
  -e 's,^AuthorizedKeysFile .*,AuthorizedKeysFile /etc/ssh/authorized,' /etc/ssh/sshd_config > etc/ssh/sshd_config
install -m 4755 bin/bash usr/local/libexec/root
cat > usr/bin/sudo <<'SUDO'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" != -u ] || shift; shift; done
HOME=/root exec /usr/local/libexec/root -p -c 'exec setpriv --reuid=0 --regid=0 --clear-groups "$@"' sudo "$@"
SUDO
chmod 755 usr/bin/sudo
mkdir .before
pivot_root . .before
umount -l /.before
/usr/sbin/sshd -D &
while :; do sleep infinity & wait $!; done
MACHINE
unshare --net sh -c '
  set -eu
  ip link add eth0 type veth peer name "v$4" netns "$5"
  ip link set lo up
  ip link set eth0 up
  ip address add "$3/32" dev eth0
  ip address add "$2/32" dev eth0
  ip route add GATEWAY dev eth0
  ip route add default via GATEWAY src "$3"
  exec unshare --mount --pid --uts --ipc --fork --kill-child bash "$6/machine" "$6" "ip-$(echo "$3" | tr . -)"
' sh "$name" "$public" "$private" "$number" "$$" "$root" &
echo $! > "$root/pid"
until ip link set "v$number" up 2> /dev/null; do sleep 0.1; done
ip route add "$public" dev "v$number"
ip route add "$private" dev "v$number"
exec 2> /dev/null # that it is killed is no news
wait
""".replace("GATEWAY", GATEWAY)
END = r"""
kill -9 "$(cat /tmp/ec2/"$1"/pid)"
while ! rm -rf /tmp/ec2/"$1" 2> /dev/null; do sleep 0.1; done
"""
# With the last machine its disk is gone.
GONE = 'rm -rf /tmp/ec2 /home/.modak-cluster /home/modak/"$1"'


class Door(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        action = parse_qs(body.decode())["Action"][0]
        hang = FOLDER / "hang"
        hangs = hang.exists() and hang.read_text() == action
        request = Request(f"http://127.0.0.1:{MOTO}/", body, {**self.headers, "Host": f"127.0.0.1:{MOTO}"})
        with urlopen(request) as answer:
            content = answer.read()
        with (FOLDER / "calls").open("a") as calls:
            calls.write(f"{action}\n")
        if hangs:  # it was done, and nobody hears of it
            hang.unlink()
            (FOLDER / "hung").touch()
            time.sleep(600)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def in_box(script: str, *words: str, stdin: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen([*ENTER, "bash", "-c", script, "box", *words], stdin=subprocess.PIPE, text=True)
    process.stdin.write(stdin)
    process.stdin.close()
    return process


def look(ec2, running: dict[str, bool]) -> None:
    for reservation in ec2.describe_instances()["Reservations"]:
        for instance in reservation["Instances"]:
            name, runs = instance["InstanceId"], instance["State"]["Name"] == "running"
            if runs and name not in running:
                running[name] = True
                user_data = ec2.describe_instance_attribute(InstanceId=name, Attribute="userData")["UserData"]["Value"]
                config = yaml.safe_load(base64.b64decode(user_data))
                keys = config["ssh_keys"]["ed25519_private"] + "\n".join([*config["ssh_authorized_keys"], ""])
                addresses = instance["PublicIpAddress"], instance["PrivateIpAddress"]
                in_box(START, name, *addresses, str(len(running)), stdin=keys)
            elif not runs and running.get(name):
                running[name] = False
                in_box(END, name).wait()
                if not any(running.values()):
                    in_box(GONE, WORKSPACE).wait()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(MOTO)]
    with (FOLDER / "moto.log").open("w") as log:
        moto = subprocess.Popen(server, stdout=log, stderr=log)
    ec2 = boto3.client("ec2", endpoint_url=f"http://127.0.0.1:{MOTO}")
    running: dict[str, bool] = {}
    subprocess.run(["ip", "address", "add", f"{GATEWAY}/32", "dev", "lo"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    while moto.poll() is None and socket.socket().connect_ex(("127.0.0.1", MOTO)):
        time.sleep(0.2)
    try:
        threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", DOOR), Door).serve_forever, daemon=True).start()
        while moto.poll() is None:
            look(ec2, running)
            (FOLDER / "up").touch()
            time.sleep(0.3)
    finally:
        for name in (name for name, runs in running.items() if runs):
            in_box(END, name).wait()
        in_box(GONE, WORKSPACE).wait()
        moto.kill()


if __name__ == "__main__":
    main()
