"""What stands for Amazon's EC2: moto's server, before it a door that hangs where it is told to, and behind it machines.

A machine is an sshd in a testbed's box, at the address that moto invented for it, with the keys of its user data. All
is in a network of its own: this script is started there, and ends with whoever started it.

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
START = """\
set -eu
umask 077
mkdir -p /run/ec2
cat > /run/ec2/key
printf '%s\\n' "$1" > /run/ec2/authorized
chmod 755 /run/ec2; chmod 644 /run/ec2/authorized
sed -e "s/^ListenAddress .*/ListenAddress $2:22/" -e 's,^HostKey .*,HostKey /run/ec2/key,' \
    -e 's,^AuthorizedKeysFile .*,AuthorizedKeysFile /run/ec2/authorized,' /etc/ssh/sshd_config > /run/ec2/config
exec /usr/sbin/sshd -D -f /run/ec2/config -o PidFile=/run/ec2/pid
"""
# All that runs in this network within the box, and the machine's disk.
END = """\
own=$(readlink /proc/self/ns/net)
for each in /proc/[0-9]*; do
  if [ "$(readlink "$each/ns/net")" = "$own" ] && [ "$each" != "/proc/$$" ]; then kill -9 "${each#/proc/}"; fi
done 2> /dev/null
rm -rf /home/modak/"$1"
"""


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


def look(ec2, there: dict[str, str]) -> None:
    for reservation in ec2.describe_instances()["Reservations"]:
        for instance in reservation["Instances"]:
            name, runs = instance["InstanceId"], instance["State"]["Name"] == "running"
            if runs and name not in there:
                address = there[name] = instance["PublicIpAddress"]
                asked = ec2.describe_instance_attribute(InstanceId=name, Attribute="userData")["UserData"]["Value"]
                told = yaml.safe_load(base64.b64decode(asked))
                subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
                keys = "\n".join(told["ssh_authorized_keys"])
                in_box(START, keys, address, stdin=told["ssh_keys"]["ed25519_private"])
            elif not runs and there.get(name):
                in_box(END, WORKSPACE).wait()
                subprocess.run(["ip", "address", "del", f"{there[name]}/32", "dev", "lo"], check=True)
                there[name] = ""


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server = [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(MOTO)]
    with (FOLDER / "moto.log").open("w") as log:
        moto = subprocess.Popen(server, stdout=log, stderr=log)
    ec2 = boto3.client("ec2", endpoint_url=f"http://127.0.0.1:{MOTO}")
    there: dict[str, str] = {}
    while moto.poll() is None and socket.socket().connect_ex(("127.0.0.1", MOTO)):
        time.sleep(0.2)
    try:
        threading.Thread(target=ThreadingHTTPServer(("127.0.0.1", DOOR), Door).serve_forever, daemon=True).start()
        while moto.poll() is None:
            look(ec2, there)
            (FOLDER / "up").touch()
            time.sleep(0.3)
    finally:
        in_box(END, WORKSPACE).wait()
        moto.kill()


if __name__ == "__main__":
    main()
