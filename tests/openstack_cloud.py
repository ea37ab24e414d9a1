"""What stands for an OpenStack cloud: Keystone, Nova, Glance and Neutron on loopback, as far as its own client asks them.

What Nova and Keystone are asked is checked by their own JSON schemas, what Neutron is asked by its attribute maps, and
what this Nova answers by Nova's schemas of answers (``unit/clouds/recorded/openstack.json``, which names where they are
from). An answer begins as the one that Nova's tests record. Refusals are in the form and in the words of their sources.
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import jsonschema

RECORDED = json.loads((Path(__file__).parent / "unit" / "clouds" / "recorded" / "openstack.json").read_text())
NOW = "2026-11-24T10:00:00Z"
NO_HOST = "No valid host was found. There are not enough hosts available."
OLD, NEW = "2.42", "2.96"  # what Nova speaks at the most: that of 2017, and that of 2024
SPOKEN = {OLD: OLD, NEW: "2.61"}  # what the client asks for flavors in
FORMATS = jsonschema.FormatChecker(formats=())
FORMATS.checks("uuid", ValueError)(lambda text: bool(text is None or uuid.UUID(text)))
FORMATS.checks("ipv4", ValueError)(lambda text: IPv4Address(text) is not None)
FORMATS.checks("ipv6", ValueError)(lambda text: IPv6Address(text) is not None)
FORMATS.checks("base64", ValueError)(lambda text: base64.b64decode(text, validate=True) is not None)
VALIDATORS: dict[int, jsonschema.Draft4Validator] = {}  # of the recorded schemas, which stay where they are


class Refused(Exception):
    def __init__(self, status: int, kind: str, message: str) -> None:
        self.status, self.body = status, {kind: {"code": status, "message": message}}


class Lost(Exception):
    """The answer, and the connection with it."""


def known_id() -> str:
    return str(uuid.uuid4())


class OpenStackCloud:
    """One project in the regions RegionOne and RegionTwo, with a private network, and one of public addresses.

    Attributes:
        asked: the requests that came, as method, path and body.
        loses: a request as ``POST /servers`` that is carried out, and once not answered.
        late: whether a server that is asked for is made only when the request "arrives", and never answered.
        refuses: requests, and what they are refused with, once.
        fault: why no machine comes of what is asked for.
        slow: how often servers are listed before one is built, or gone, or before it shows its floating address.
        hidden: whether servers are listed at all; they are not where their cell is down.
        wrong: what its schemas say of requests and answers.
    """

    def __init__(self, microversion: str = NEW) -> None:
        self.microversion, self.password, self.token = microversion, "planted-word", "gAAAA-token"
        self.asked, self.wrong, self.held, self.refuses, self.closed = [], [], [], {}, False
        self.slow, self.hidden = 0, False
        self.loses, self.late, self.fault, self.counter = "", False, "", itertools.count(1)
        self.servers, self.ports, self.security_groups, self.security_group_rules, self.floatingips = {}, {}, {}, {}, {}
        self.networks = self._all(
            {"name": "private", "router:external": False, "prefix": "10.0.0."},
            {"name": "public", "router:external": True, "prefix": "129.69.0."},
        )
        self.flavors = self._all(
            *({"name": name, "vcpus": cpus, "ram": ram, "disk": disk} for name, cpus, ram, disk in FLAVORS)
        )
        self.images = self._all(
            {"name": "debian-12", "os_distro": "debian", "os_version": "12", "created_at": "2025-01-01T00:00:00Z"},
            {"name": "debian-12", "os_distro": "debian", "os_version": "12", "created_at": "2026-01-01T00:00:00Z"},
            {"name": "ubuntu-24.04", "os_distro": "ubuntu", "os_version": "24.04", "created_at": "2024-05-01T00:00:00Z"},
        )  # fmt: skip
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"cloud": self}))
        self.http.daemon_threads = True
        self.lock = threading.Lock()
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    @staticmethod
    def _all(*things: dict) -> dict[str, dict]:
        return {item["id"]: item for thing in things if (item := {"id": known_id(), **thing})}

    def close(self) -> None:
        self.closed = True  # its connections may be kept
        self.http.shutdown()
        self.http.server_close()

    def arrive(self) -> list[str]:
        """What was on its way reaches Nova; gives what that says of it."""
        messages = []
        while self.held:
            try:
                self._make(self.held.pop())
            except Refused as error:
                messages += [problem["message"] for problem in error.body.values()]
        return messages

    def named(self, kind: str, name: str) -> dict:
        return next(item for item in getattr(self, kind).values() if item["name"] == name)

    def add(self, kind: str, **known) -> str:
        """Something that somebody else made; gives its id."""
        made = {**known, "id": known_id()}
        getattr(self, kind)[made["id"]] = made
        return made["id"]

    @property
    def left(self) -> list[dict]:
        """All that there is of a machine's."""
        return [
            item
            for kind in (self.servers, self.ports, self.security_groups, self.floatingips)
            for item in kind.values()
        ]

    # --- requests

    def answer(self, method: str, target: str, body: dict | None, headers) -> tuple[int, dict, dict[str, str]]:
        url = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        _, service, *parts = url.path.split("/")
        with self.lock:
            if self.closed:
                raise Lost
            self.asked.append((method, url.path, body))
            if (
                service != "identity"
                and "auth" not in parts
                and headers.get("X-Auth-Token") != self.token
                and len(parts) > 1
            ):
                raise Refused(401, "error", "The request you have made requires authentication.")
            call = f"{method} /{'/'.join(part for part in parts if not part.startswith('v2'))}"
            if refusal := self.refuses.pop(call, None):
                raise refusal
            if service == "compute" and len(parts) > 1 and parts[1] in ("servers", "flavors"):
                spoken = headers.get("OpenStack-API-Version", "")
                expected = SPOKEN[self.microversion] if parts[1] == "flavors" else self.microversion
                if spoken != f"compute {expected}":
                    self.wrong.append(f"{call} in microversion {spoken!r}")
            status, content, more = getattr(self, f"_{service}")(method, parts, query, body)
            if call == self.loses:
                self.loses = ""
                raise Lost
        return status, content, more

    def check(self, schema: dict, content: object, about: str) -> None:
        validator = VALIDATORS.setdefault(id(schema), jsonschema.Draft4Validator(schema, format_checker=FORMATS))
        for error in validator.iter_errors(content):
            worst = jsonschema.exceptions.best_match([error])
            self.wrong.append(f"{about}: {worst.json_path}: {worst.message}"[:600])

    def _identity(self, method, parts, query, body):
        if parts[-1:] != ["tokens"]:
            links = [{"rel": "self", "href": f"{self.address}/identity/v3/"}]
            return 200, {"version": {"id": "v3.14", "status": "stable", "links": links}}, {}
        self.check(RECORDED["keystone"]["POST /auth/tokens"], body["auth"], "POST /auth/tokens")
        identity = body["auth"]["identity"]
        secrets = {
            "password": identity.get("password", {}).get("user", {}).get("password"),
            "application_credential": identity.get("application_credential", {}).get("secret"),
        }
        if [secrets[method_name] for method_name in identity["methods"]] != [self.password]:
            raise Refused(401, "error", "The request you have made requires authentication.")
        services = {"compute": "compute/v2.1", "image": "image", "network": "network", "identity": "identity/v3"}
        catalog = [
            {
                "id": known_id(), "type": kind, "name": kind,
                "endpoints": [
                    {"id": known_id(), "interface": "public", "region": region, "region_id": region, "url": f"{self.address}/{path}"}
                    for region in ("RegionOne", "RegionTwo")
                ],
            }
            for kind, path in services.items()
        ]  # fmt: skip
        user = {"id": known_id(), "name": "alice", "domain": {"id": "default", "name": "Default"}}
        project = {"id": "6f70656e737461636b20342065766572", "name": "training", "domain": user["domain"]}
        token = {"methods": identity["methods"], "user": user, "project": project, "catalog": catalog, "roles": [],
                 "issued_at": "2026-11-24T10:00:00.000000Z", "expires_at": "2126-11-24T10:00:00.000000Z"}  # fmt: skip
        return 201, {"token": token}, {"X-Subject-Token": self.token}

    # --- Nova

    def _compute(self, method, parts, query, body):
        if parts[1:] in ([], [""]):
            links = [{"rel": "self", "href": f"{self.address}/compute/v2.1/"}]
            version = {
                "id": "v2.1",
                "status": "CURRENT",
                "version": self.microversion,
                "min_version": "2.1",
                "links": links,
            }
            return 200, {"version": version}, {}
        call, own = " ".join([method, *parts[1:]]), parts[2] if len(parts) > 2 else ""
        if call == "GET flavors detail":
            flavors = [self._flavor(flavor) for flavor in self.flavors.values()]
            return self._checked("GET /flavors/detail", query, 200, {"flavors": flavors})
        if call == "GET servers detail":
            self._go_on()
            servers = [] if self.hidden else [self._shown(existing) for existing in self.servers.values()]
            return self._checked("GET /servers/detail", query, 200, {"servers": servers})
        if call == "POST servers":
            self.check(self.schemas["POST /servers"], body, call)
            if self.late:
                self.held.append(body)
                raise Lost
            return self._checked("POST /servers", None, 202, {"server": self._make(body)})
        if own not in self.servers:
            raise Refused(404, "itemNotFound", f"Instance {own} could not be found.")
        server = self.servers[own]
        if method == "GET":
            more = {"server_groups": []} if self.microversion == NEW else {}
            return self._checked("GET /servers/ID", None, 200, {"server": self._shown(server) | more})
        if method == "DELETE":
            server |= {"task_state": "deleting", "wait": self.slow}
            return 204, {}, {}
        self.check(self.schemas["POST /servers/ID/action"], body, call)
        if server["status"] != "SHUTOFF":
            said = f"Cannot 'start' instance {own} while it is in vm_state {server['status'].lower()}"
            raise Refused(409, "conflictingRequest", said)
        server["status"] = "ACTIVE"
        return 202, {}, {}

    @property
    def schemas(self) -> dict:
        return RECORDED["nova"]["microversions"][self.microversion]

    def _checked(self, call, query, status, content):
        if query is not None:
            self.check(self.schemas[call], {name: [value] for name, value in query.items()}, call)
        self.check(self.schemas[f"{call} answer"], content, f"{call} answer")
        return status, content, {}

    def _flavor(self, flavor: dict) -> dict:
        more = {"rxtx_factor": 1.0, "swap": "", "OS-FLV-DISABLED:disabled": False, "OS-FLV-EXT-DATA:ephemeral": 0}
        links = [{"rel": "self", "href": f"{self.address}/compute/v2.1/flavors/{flavor['id']}"}]
        if self.microversion == NEW:
            more |= {"description": None, "extra_specs": {}}
        return {**flavor, **more, "os-flavor-access:is_public": True, "links": links}

    def _make(self, body: dict) -> dict:
        """A server's record, as Nova's API makes it: what it has of the network is seen when it is built."""
        asked = body["server"]
        port = self.ports.get(asked["networks"][0]["port"])
        if port is None:
            raise Refused(400, "badRequest", f"Port {asked['networks'][0]['port']} could not be found.")
        if port["device_id"]:
            raise Refused(409, "conflictingRequest", f"Port {port['id']} is still in use.")
        assert asked["flavorRef"] in self.flavors
        volumes = asked.get("block_device_mapping_v2", ())
        assert asked["imageRef"] in self.images or (asked["imageRef"] == "" and volumes[0]["uuid"] in self.images)
        number = next(self.counter)
        server = {"id": known_id(), "created": f"2026-11-24T10:{number // 60:02}:{number % 60:02}Z", "status": "BUILD",
                  "task_state": None, "wait": self.slow, "asked": asked}  # fmt: skip
        self.servers[server["id"]] = server
        links = [{"rel": "self", "href": f"{self.address}/compute/v2.1/servers/{server['id']}"}]
        answer = {"id": server["id"], "links": links, "OS-DCF:diskConfig": "MANUAL", "adminPass": "S3cr3tPass"}
        return {**answer, "security_groups": [{"name": "default"}]}

    def _go_on(self) -> None:
        """Time passes, in which what was begun is done."""
        for server in list(self.servers.values()):
            own_ports = [candidate for candidate in self.ports.values() if candidate["device_id"] == server["id"]]
            server["wait"] -= 1
            if server["wait"] >= 0:
                continue
            if server["task_state"] == "deleting":
                del self.servers[server["id"]]
                for port in own_ports:
                    port["device_id"] = ""
            elif server["status"] == "BUILD":
                port = self.ports[server["asked"]["networks"][0]["port"]]
                server["fault"] = self.fault
                if port["device_id"]:
                    server["fault"] = f"Build of instance {server['id']} aborted: Port {port['id']} is still in use."
                elif not self.fault:
                    port["device_id"] = server["id"]
                server["status"] = "ERROR" if server["fault"] else "ACTIVE"

    def _shown(self, server: dict) -> dict:
        shown = copy.deepcopy(RECORDED["nova"]["samples"][self.microversion]["server"])
        shown = {name: "" if str(value).startswith("%(") else value for name, value in shown.items()}
        flavor, asked = self.flavors[server["asked"]["flavorRef"]], server["asked"]
        shown |= {
            "id": server["id"], "name": asked["name"], "metadata": asked["metadata"], "status": server["status"],
            "created": server["created"], "updated": NOW, "addresses": self._addresses(server),
            "OS-EXT-STS:task_state": server["task_state"], "OS-EXT-STS:vm_state": server["status"].lower(),
            "accessIPv4": "", "accessIPv6": "", "hostId": "", "config_drive": "", "OS-SRV-USG:launched_at": None,
            "image": {"id": asked["imageRef"], "links": []} if asked["imageRef"] else "",
            "os-extended-volumes:volumes_attached": [], "tags": [], "key_name": asked.get("key_name"),
        }  # fmt: skip
        shown["links"] = [{"rel": "self", "href": f"{self.address}/compute/v2.1/servers/{server['id']}"}]
        if server["status"] == "ERROR":
            shown["fault"] = {"code": 500, "created": NOW, "message": server["fault"]}
        if self.microversion == NEW:
            shown["flavor"] |= {"original_name": flavor["name"], "vcpus": flavor["vcpus"], "ram": flavor["ram"]}
        else:
            shown["flavor"] = {"id": flavor["id"], "links": shown["links"]}
        return shown

    def _addresses(self, server: dict) -> dict:
        by_network = {}
        for port in self.ports.values():
            if port["device_id"] == server["id"]:
                fixed = {"addr": port["fixed_ips"][0]["ip_address"], "OS-EXT-IPS:type": "fixed"}
                floating = [
                    {"addr": floatingip["floating_ip_address"], "OS-EXT-IPS:type": "floating"}
                    for floatingip in self.floatingips.values()
                    if floatingip["port_id"] == port["id"] and server["wait"] < 0
                ]
                more = {"version": 4, "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:01"}
                by_network[self.networks[port["network_id"]]["name"]] = [
                    {**address, **more} for address in (fixed, *floating)
                ]
        return by_network

    # --- Glance and Neutron

    def _image(self, method, parts, query, body):
        if parts[1:2] != ["images"]:
            links = [{"rel": "self", "href": f"{self.address}/image/v2/"}]
            return 300, {"versions": [{"id": "v2.16", "status": "CURRENT", "links": links}]}, {}
        images = {image["id"]: {"status": "active", "visibility": "public", **image} for image in self.images.values()}
        if len(parts) > 2:
            if parts[2] not in images:
                raise Refused(404, "error", f"Failed to find image {parts[2]}")
            return 200, images[parts[2]], {}
        return (
            200,
            {"images": [image for image in images.values() if image["status"] == query.get("status", "active")]},
            {},
        )

    def _network(self, method, parts, query, body):
        if len(parts) < 2 or not parts[1]:
            links = [{"rel": "self", "href": f"{self.address}/network/v2.0"}]
            return 200, {"versions": [{"id": "v2.0", "status": "CURRENT", "links": links}]}, {}
        kind = parts[1].replace("-", "_")
        things, one = getattr(self, kind), kind.removesuffix("s")
        if method == "POST":
            asked = body[one]
            self.check(RECORDED["neutron"][one]["post"], asked, f"POST {kind}")
            made = {"id": known_id(), **getattr(self, f"_new_{one}")(asked)}
            things[made["id"]] = made
            for server in self.servers.values() if one == "floatingip" else ():
                server["wait"] = self.slow
            return 201, {one: made}, {}
        if method == "DELETE":
            if parts[2] not in things:
                raise Refused(404, "NeutronError", f"{one} {parts[2]} could not be found.")
            if kind == "security_groups" and any(parts[2] in port["security_groups"] for port in self.ports.values()):
                raise Refused(409, "NeutronError", f"Security Group {parts[2]} in use.")
            del things[parts[2]]
            if kind == "ports":
                for floatingip in self.floatingips.values():
                    floatingip["port_id"] = None if floatingip["port_id"] == parts[2] else floatingip["port_id"]
            return 204, {}, {}
        filters = RECORDED["neutron"].get(one, {"filters": ["router:external"]})["filters"]
        self.wrong += [f"GET {kind}: no filter {name}" for name in query if name not in filters]
        listed = [thing for thing in things.values() if all(str(thing.get(name)) == query[name] for name in query)]
        return 200, {kind: listed}, {}

    def _new_port(self, asked: dict) -> dict:
        address = f"{self.networks[asked['network_id']]['prefix']}{next(self.counter)}"
        fixed = [{"subnet_id": known_id(), "ip_address": address}]
        return {"name": "", "description": "", "device_id": "", "fixed_ips": fixed, **asked}

    def _new_security_group(self, asked: dict) -> dict:
        return {"description": "", **asked}

    def _new_security_group_rule(self, asked: dict) -> dict:
        assert asked["security_group_id"] in self.security_groups
        return asked

    def _new_floatingip(self, asked: dict) -> dict:
        if any(floatingip["port_id"] == asked["port_id"] for floatingip in self.floatingips.values()):
            raise Refused(
                409, "NeutronError", "Cannot associate floating IP with port, as that fixed IP already has one"
            )
        network = self.networks[asked["floating_network_id"]]
        assert network["router:external"]
        return {**asked, "floating_ip_address": f"{network['prefix']}{next(self.counter)}"}


FLAVORS = [("m1.tiny", 1, 512, 1), ("m1.large", 4, 8192, 80), ("c1.small", 4, 4096, 0), ("m1.xlarge", 8, 16384, 160)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece, or its second half waits for 40 ms
    cloud: OpenStackCloud

    def _answered(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        try:
            status, content, more = self.cloud.answer(self.command, self.path, body, self.headers)
        except Lost:
            self.close_connection = True
            return
        except Refused as error:
            status, content, more = error.status, error.body, {}
        text = b"" if status == 204 else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(text)), **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        self._answered()

    def do_POST(self) -> None:
        self._answered()

    def do_DELETE(self) -> None:
        self._answered()

    def log_message(self, *arguments) -> None:
        pass
