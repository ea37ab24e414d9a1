"""Machines of an OpenStack cloud; its own client asks Keystone, Nova, Glance and Neutron for them.

Credentials, region and address are the client's: its variables ``OS_*``, or ``clouds.yaml``.

Nova knows no tokens by which a request that is made twice is done once. A port of the network stands for one: it is
there before the machine is asked for, is part of the request, and Nova gives no second machine a port that is in use.
In use it is when the machine is built: of two requests on their way at once both become machines, of which one has the
port and the other breaks, and is removed by whoever looks next.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any, TypeVar
from uuid import UUID

from modak_ansible.errors import ModakError, TargetUnreachable, nearest
from modak_ansible.model.target import NO_FLOATING_IP, Cloud
from modak_ansible.stages.clouds.base import (
    ANY,
    GIB,
    KEY_TAG,
    OF_THE_SERVER,
    TAG,
    Answer,
    Found,
    NoCredentials,
    Parameters,
    Wanted,
    client,
    does_not_answer,
    out_of_order,
    smallest,
    wait_until_gone,
)
from modak_ansible.store.machines import cluster_of

_ANSWERS_WITHIN = 60.0  # seconds
_DELETING = "deleting"
_UNAUTHORIZED = 401
_LOGIN = "source an openrc file (OS_AUTH_URL and what goes with it), or a clouds.yaml and cloud: its name there"
_Answer = TypeVar("_Answer")


class OpenStack:
    """One project in one region of it."""

    title = "openstack"

    def __init__(self, cloud: Cloud) -> None:
        openstack, self._cloud = client("openstack", self.title), cloud
        place = {"cloud": cloud.cloud, "region_name": cloud.region}
        given = {name: value for name, value in place.items() if value}
        connection = _asked(lambda: openstack.connect(**given, app_name="modak", api_timeout=_ANSWERS_WITHIN))
        self._compute, self._network, self._images = _asked(
            lambda: (connection.compute, connection.network, connection.image)
        )

    def find(self, tag: str) -> list[Found]:
        servers = _asked(lambda: list(self._compute.servers()))
        living = [self._found(each) for each in servers if fnmatchcase((each.metadata or {}).get(TAG, ""), tag)]
        # of two the one that has the port
        return sorted(living, key=lambda found: (found.is_broken, found.since, found.id))

    def prepare(self, wanted: Wanted) -> Parameters:
        return _asked(lambda: self._parameters(wanted))

    def create(self, parameters: Parameters, token: str) -> Found | None:  # noqa: ARG002 - the port is its token
        tag = parameters["metadata"][TAG]
        try:
            made = _asked(lambda: self._compute.create_server(**parameters))
            return _asked(lambda: self._found(self._compute.get_server(made.id)))
        except ModakError as error:
            # it was made, and its answer lost, now or by somebody who was killed: then it has the port
            for known in self.find(tag):
                if not known.is_broken:
                    return known
            if not isinstance(error, TargetUnreachable):
                self.clear(tag)
            raise

    def admit(self, wanted: Wanted) -> None:
        _asked(lambda: self._group(wanted))

    def settle(self, found: Found) -> None:
        _asked(lambda: self._settle(found))

    def remove(self, gone: Sequence[Found]) -> None:
        _asked(lambda: self._delete(gone))
        wait_until_gone(self, gone)
        for found in gone:
            self.clear(found.tag)

    def clear(self, tag: str) -> None:
        if not self.find(tag):  # a machine that is being built has its port only later
            _asked(lambda: self._clear(tag))

    # --- a machine

    def _found(self, server: Any) -> Found:
        state = _DELETING if server.task_state == _DELETING else server.status
        return Found(
            id=server.id,
            tag=server.metadata.get(TAG, ""),
            host_key=server.metadata.get(KEY_TAG, ""),
            address=self._address([each for network in (server.addresses or {}).values() for each in network]),
            flavor=server.flavor.original_name or server.flavor.id or "",
            since=datetime.fromisoformat(server.created_at).timestamp(),
            state=state,
            runs=state == "ACTIVE",
            is_off=state == "SHUTOFF",
            is_broken=state in ("ERROR", _DELETING),
        )

    def _address(self, addresses: Iterable[Answer]) -> str:
        """Where it is entered: a floating address, or its own where that is public or wished for; else empty."""
        known = sorted(addresses, key=lambda each: (each.get("OS-EXT-IPS:type") != "floating", each["version"]))
        for each in known[:1]:
            if each.get("OS-EXT-IPS:type") == "floating" or self._is_entered(each["addr"]):
                return str(each["addr"])
        return ""

    def _is_entered(self, fixed: str) -> bool:
        return self._cloud.floating_ip == NO_FLOATING_IP or ip_address(fixed).is_global

    def _settle(self, found: Found) -> None:
        server = self._compute.get_server(found.id)
        if server.status == "ERROR":
            fault = (server.fault or {}).get("message", "it does not say why")
            self.remove([found])
            raise ModakError(f"openstack could not make the machine: {fault}", hint=_hint(fault))
        if server.status == "SHUTOFF" and not server.task_state:
            self._compute.start_server(server)
        if server.status == "ACTIVE" and not found.address:
            for port in self._network.ports(device_id=server.id):
                if not list(self._network.ips(port_id=port.id)):  # one there is shown some time later
                    self._network.create_ip(
                        floating_network_id=self._pool().id, port_id=port.id, description=_name(found.tag)
                    )

    def _delete(self, gone: Sequence[Found]) -> None:
        """What costs by itself goes first: nobody would find it without its machine."""
        for found in gone:
            for port in self._network.ports(device_id=found.id):
                for address in self._network.ips(port_id=port.id, description=_name(found.tag)):
                    self._network.delete_ip(address)
            self._compute.delete_server(found.id)

    def _clear(self, tag: str) -> None:
        """A late request for the machine finds no port then; of one that Nova does not list now, nothing is removed."""
        from openstack.exceptions import ConflictException  # noqa: PLC0415 - an extra

        name = _name(tag)
        ports = list(self._network.ports(name=name))
        if any(port.device_id for port in ports):
            return
        for address in self._network.ips(description=name):
            self._network.delete_ip(address)
        for port in ports:
            self._network.delete_port(port)
        for group in self._network.security_groups(name=_name(cluster_of(tag))):  # another host's port may be in it
            with suppress(ConflictException):
                self._network.delete_security_group(group)

    # --- what is asked for

    def _parameters(self, wanted: Wanted) -> Parameters:
        cloud, image = wanted.cloud, self._image(wanted.cloud)
        flavor = self._flavor(cloud)
        port = self._port(wanted)
        if not any(self._is_entered(each["ip_address"]) for each in port.fixed_ips):
            self._pool()  # that there is none is better known now than when the machine costs
        parameters: Parameters = {
            "name": wanted.name,
            "flavor_id": flavor.id,
            "image_id": image.id,
            "networks": [{"port": port.id}],
            "metadata": {TAG: wanted.tag, KEY_TAG: wanted.host_key},
            "user_data": base64.b64encode(wanted.user_data.encode()).decode(),
        }
        if cloud.key:
            parameters["key_name"] = cloud.key
        if cloud.zone:
            parameters["availability_zone"] = cloud.zone
        disk = -(-(cloud.shape.disk or 0) // GIB)
        if disk > flavor.disk:
            volume = {"boot_index": 0, "uuid": image.id, "source_type": "image", "destination_type": "volume"}
            parameters["block_device_mapping"] = [{**volume, "volume_size": disk, "delete_on_termination": True}]
            parameters["image_id"] = ""
        return parameters

    def _flavor(self, cloud: Cloud) -> Any:
        """The one that is named, or the smallest; one whose own disk is large enough, where there is any."""
        flavors = list(self._compute.flavors())
        if cloud.flavor:
            return _named(flavors, cloud.flavor, "flavor")[0]
        roomy = [each for each in flavors if each.disk * GIB >= (cloud.shape.disk or 0)]
        kinds = [[(each.name, each.vcpus, each.ram * 1024**2) for each in group] for group in (roomy, flavors)]
        with suppress(ModakError):
            return _named(roomy, smallest(kinds[0], cloud, self.title), "flavor")[0]
        return _named(flavors, smallest(kinds[1], cloud, self.title), "flavor")[0]

    def _image(self, cloud: Cloud) -> Any:
        """The newest that is named so, or whose properties name the system."""
        with suppress(ValueError):
            return self._images.get_image(str(UUID(cloud.image)))
        system = cloud.system
        images = [
            each
            for each in self._images.images(status="active")
            if (each.architecture or system.architecture) == system.architecture
        ]
        asked, wanted = cloud.image, (system.distribution.lower(), system.version)
        if not asked:
            fitting = [each for each in images if (str(each.os_distro).lower(), each.os_version) == wanted]
            asked = " ".join(wanted) + " by its properties os_distro and os_version"
        else:
            fitting = _named(images, asked, "image")
        if not fitting:
            hint = f"image: its name or id; {nearest(' '.join(wanted), (each.name or '' for each in images))}"
            raise ModakError(f"openstack has no image of {asked}", hint=hint)
        return max(fitting, key=lambda image: str(image.created_at))

    def _port(self, wanted: Wanted) -> Any:
        """The one that stands for the machine, with who may enter it; one that is in use is not left for another."""
        group = self._group(wanted)
        known = list(self._network.ports(name=_name(wanted.tag)))
        if known:
            return known[0]
        network = self._own_network(wanted.cloud).id
        return self._network.create_port(name=_name(wanted.tag), network_id=network, security_groups=[group])

    def _group(self, wanted: Wanted) -> str:
        """The id of the group that lets in whom the target names, a cluster's hosts to each other, and nobody else."""
        name = _name(cluster_of(wanted.tag))
        about = "Who may enter a machine that modak deploys to"
        known = list(self._network.security_groups(name=name))
        group = known[0] if known else self._network.create_security_group(name=name, description=about)
        meant = {(cidr, wanted.port) for cidr in wanted.ssh_from}
        among = {"IPv4", "IPv6"} if wanted.cloud.machines else set()
        for rule in self._network.security_group_rules(security_group_id=group.id, direction="ingress"):
            there = (rule.remote_ip_prefix, rule.port_range_max)
            if rule.remote_group_id == group.id and rule.ether_type in among:
                among.discard(rule.ether_type)
            elif there in meant:
                meant.discard(there)
            else:
                self._network.delete_security_group_rule(rule)
        for cidr, port in sorted(meant):
            self._network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", ether_type="IPv6" if ":" in cidr else "IPv4",
                protocol="tcp", port_range_min=port, port_range_max=port, remote_ip_prefix=cidr,
            )  # fmt: skip
        for version in sorted(among):
            self._network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", ether_type=version, remote_group_id=group.id
            )
        return str(group.id)

    def _own_network(self, cloud: Cloud) -> Any:
        networks = list(self._network.networks())
        own = [each for each in networks if not each.is_router_external] or networks
        return _one(networks if cloud.network else own, cloud.network, "network")

    def _pool(self) -> Any:
        """The network that has floating addresses."""
        pools = list(self._network.networks(is_router_external=True))
        return _one(pools, self._cloud.floating_ip, "floating_ip")


PROVIDER = OpenStack


def _name(tag: str) -> str:
    return f"modak {tag}"


def _named(known: Iterable[Any], asked: str, what: str) -> list[Any]:
    """Those of a name, or the one of an id.

    Raises:
        ModakError: there is none.
    """
    known = list(known)
    found = [each for each in known if asked in (each.id, each.name) or fnmatchcase(each.name or "", asked)]
    if not found:
        hint = nearest(asked, (each.name for each in known if each.name))
        raise ModakError(f"openstack has no {what} {asked} in this project and region", hint=hint)
    return found


def _one(known: list[Any], asked: str, what: str) -> Any:
    """The one that is named, or the only one.

    Raises:
        ModakError: none is, and there are several, or none at all.
    """
    found = _named(known, asked, what) if asked else known
    if len(found) != 1:
        names = ", ".join(str(each.name) for each in found)
        hint = f"{what}: one of {names}" if found else _NONE_THERE[what]
        raise ModakError(f"openstack has {len(found) or 'no'} networks that {what} may name", hint=hint)
    return found[0]


def _asked(ask: Callable[[], _Answer]) -> _Answer:
    """An answer of OpenStack's.

    Raises:
        ModakError: it refuses, does not answer, or nobody said as whom it is asked.
    """
    from keystoneauth1 import exceptions as of_session  # noqa: PLC0415 - slow to import
    from openstack import exceptions as of_client  # noqa: PLC0415

    try:
        return ask()
    except (of_client.ConfigException, of_session.AuthPluginException, of_session.Unauthorized) as error:
        raise NoCredentials(f"openstack: {error}", hint=_hint(str(error), _LOGIN)) from error
    except (of_session.ConnectFailure, of_session.ConnectionError, of_session.DiscoveryFailure) as error:
        raise does_not_answer("openstack", error) from error
    except of_session.HttpError as error:
        raise _refused(error.http_status, error.message or str(error)) from error
    except of_client.HttpException as error:
        raise _refused(error.status_code or 0, str(error.details or error.message)) from error
    except (of_client.SDKException, of_session.ClientException) as error:
        raise ModakError(f"openstack: {error}", hint=_hint(str(error))) from error


def _refused(status: int, words: str) -> ModakError:
    if status == _UNAUTHORIZED:
        return NoCredentials(f"openstack: {words}", hint=_LOGIN)
    if status >= OF_THE_SERVER:
        return out_of_order("openstack", words)
    return ModakError(f"openstack refuses: {words} ({status})", hint=_hint(words))


def _hint(words: str, otherwise: str = ANY) -> str:
    return next((hint for part, hint in _HINTS.items() if part in words.lower()), otherwise)


_NONE_THERE = {
    "network": "openstack network list shows which there are: the project needs one with a subnet",
    "floating_ip": f"floating_ip: {NO_FLOATING_IP}, where the machine can be entered by its own address",
}
_HINTS = {
    "quota exceeded": "a smaller flavor, less of what the project has (modak gc), or a higher quota",
    "no valid host": "another flavor or zone, or later",
    "exhausted all hosts": "another flavor or zone, or later",
    "key_name": "key: a key pair of that user and region, or none, and identity_file's own enters",
    "zero disk": "host: { properties: { disk_size: 20 GB } }, a capability: it starts from a volume of that size",
    "not reachable from subnet": f"a router between them; or floating_ip: {NO_FLOATING_IP} and its own address",
    "availability zone": "zone: one of those that openstack availability zone list shows",
    "no more ip addresses": "openstack floating ip list shows who has them; or another network",
    "valid region": "region: one that the cloud has",
    "endpoint": "region: one that the cloud has; openstack catalog list shows them",
}
