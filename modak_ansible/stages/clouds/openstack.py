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
    Instance,
    MachineRequest,
    NoCredentials,
    Parameters,
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
        options = {name: value for name, value in place.items() if value}
        connection = _answer(lambda: openstack.connect(**options, app_name="modak", api_timeout=_ANSWERS_WITHIN))
        self._compute, self._network, self._images = _answer(
            lambda: (connection.compute, connection.network, connection.image)
        )

    def find(self, tag: str) -> list[Instance]:
        servers = _answer(lambda: list(self._compute.servers()))
        living = [
            self._instance_from(server) for server in servers if fnmatchcase((server.metadata or {}).get(TAG, ""), tag)
        ]
        # of two the one that has the port
        return sorted(living, key=lambda instance: (instance.is_broken, instance.since, instance.id))

    def prepare(self, request: MachineRequest) -> Parameters:
        return _answer(lambda: self._parameters(request))

    def create(self, parameters: Parameters, token: str) -> Instance | None:  # noqa: ARG002 - the port is its token
        tag = parameters["metadata"][TAG]
        try:
            server = _answer(lambda: self._compute.create_server(**parameters))
            return _answer(lambda: self._instance_from(self._compute.get_server(server.id)))
        except ModakError as error:
            # it was made, and its answer lost, now or by somebody who was killed: then it has the port
            for instance in self.find(tag):
                if not instance.is_broken:
                    return instance
            if not isinstance(error, TargetUnreachable):
                self.clear(tag)
            raise

    def admit(self, request: MachineRequest) -> None:
        _answer(lambda: self._group(request))

    def settle(self, instance: Instance) -> None:
        _answer(lambda: self._settle(instance))

    def remove(self, instances: Sequence[Instance]) -> None:
        _answer(lambda: self._delete(instances))
        wait_until_gone(self, instances)
        for instance in instances:
            self.clear(instance.tag)

    def clear(self, tag: str) -> None:
        if not self.find(tag):  # a machine that is being built has its port only later
            _answer(lambda: self._clear(tag))

    # --- a machine

    def _instance_from(self, server: Any) -> Instance:
        state = _DELETING if server.task_state == _DELETING else server.status
        return Instance(
            id=server.id,
            tag=server.metadata.get(TAG, ""),
            host_key=server.metadata.get(KEY_TAG, ""),
            address=self._address([address for network in (server.addresses or {}).values() for address in network]),
            flavor=server.flavor.original_name or server.flavor.id or "",
            since=datetime.fromisoformat(server.created_at).timestamp(),
            state=state,
            runs=state == "ACTIVE",
            is_off=state == "SHUTOFF",
            is_broken=state in ("ERROR", _DELETING),
        )

    def _address(self, addresses: Iterable[Answer]) -> str:
        """Where it is entered: a floating address, or its own where that is public or asked for; else empty."""
        ordered = sorted(
            addresses, key=lambda address: (address.get("OS-EXT-IPS:type") != "floating", address["version"])
        )
        for address in ordered[:1]:
            if address.get("OS-EXT-IPS:type") == "floating" or self._is_entered(address["addr"]):
                return str(address["addr"])
        return ""

    def _is_entered(self, fixed: str) -> bool:
        return self._cloud.floating_ip == NO_FLOATING_IP or ip_address(fixed).is_global

    def _settle(self, instance: Instance) -> None:
        server = self._compute.get_server(instance.id)
        if server.status == "ERROR":
            fault = (server.fault or {}).get("message", "it does not say why")
            self.remove([instance])
            raise ModakError(f"openstack could not make the machine: {fault}", hint=_hint(fault))
        if server.status == "SHUTOFF" and not server.task_state:
            self._compute.start_server(server)
        if server.status == "ACTIVE" and not instance.address:
            for port in self._network.ports(device_id=server.id):
                if not list(self._network.ips(port_id=port.id)):  # one there is shown some time later
                    self._network.create_ip(
                        floating_network_id=self._pool().id, port_id=port.id, description=_name(instance.tag)
                    )

    def _delete(self, instances: Sequence[Instance]) -> None:
        """What costs by itself goes first: nobody would find it without its machine."""
        for instance in instances:
            for port in self._network.ports(device_id=instance.id):
                for address in self._network.ips(port_id=port.id, description=_name(instance.tag)):
                    self._network.delete_ip(address)
            self._compute.delete_server(instance.id)

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

    def _parameters(self, request: MachineRequest) -> Parameters:
        cloud, image = request.cloud, self._image(request.cloud)
        flavor = self._flavor(cloud)
        port = self._port(request)
        if not any(self._is_entered(fixed_ip["ip_address"]) for fixed_ip in port.fixed_ips):
            self._pool()  # that there is none is better known now than when the machine costs
        parameters: Parameters = {
            "name": request.name,
            "flavor_id": flavor.id,
            "image_id": image.id,
            "networks": [{"port": port.id}],
            "metadata": {TAG: request.tag, KEY_TAG: request.host_key},
            "user_data": base64.b64encode(request.user_data.encode()).decode(),
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
        roomy = [flavor for flavor in flavors if flavor.disk * GIB >= (cloud.shape.disk or 0)]
        kinds = [[(flavor.name, flavor.vcpus, flavor.ram * 1024**2) for flavor in group] for group in (roomy, flavors)]
        with suppress(ModakError):
            return _named(roomy, smallest(kinds[0], cloud, self.title), "flavor")[0]
        return _named(flavors, smallest(kinds[1], cloud, self.title), "flavor")[0]

    def _image(self, cloud: Cloud) -> Any:
        """The newest that is named so, or whose properties name the system."""
        with suppress(ValueError):
            return self._images.get_image(str(UUID(cloud.image)))
        system = cloud.system
        images = [
            image
            for image in self._images.images(status="active")
            if (image.architecture or system.architecture) == system.architecture
        ]
        name, release = cloud.image, (system.distribution.lower(), system.version)
        if not name:
            matches = [image for image in images if (str(image.os_distro).lower(), image.os_version) == release]
            name = " ".join(release) + " by its properties os_distro and os_version"
        else:
            matches = _named(images, name, "image")
        if not matches:
            hint = f"image: its name or id; {nearest(' '.join(release), (image.name or '' for image in images))}"
            raise ModakError(f"openstack has no image of {name}", hint=hint)
        return max(matches, key=lambda image: str(image.created_at))

    def _port(self, request: MachineRequest) -> Any:
        """The one that stands for the machine, with who may enter it; one that is in use is not left for another."""
        group = self._group(request)
        ports = list(self._network.ports(name=_name(request.tag)))
        if ports:
            return ports[0]
        network = self._own_network(request.cloud).id
        return self._network.create_port(name=_name(request.tag), network_id=network, security_groups=[group])

    def _group(self, request: MachineRequest) -> str:
        """The id of the group that lets in whom the target names, a cluster's hosts to each other, and nobody else."""
        name = _name(cluster_of(request.tag))
        description = "Who may enter a machine that modak deploys to"
        groups = list(self._network.security_groups(name=name))
        group = groups[0] if groups else self._network.create_security_group(name=name, description=description)
        requested = {(cidr, request.port) for cidr in request.ssh_from}
        missing_families = {"IPv4", "IPv6"} if request.cloud.machines else set()
        for rule in self._network.security_group_rules(security_group_id=group.id, direction="ingress"):
            source = (rule.remote_ip_prefix, rule.port_range_max)
            if rule.remote_group_id == group.id and rule.ether_type in missing_families:
                missing_families.discard(rule.ether_type)
            elif source in requested:
                requested.discard(source)
            else:
                self._network.delete_security_group_rule(rule)
        for cidr, port in sorted(requested):
            self._network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", ether_type="IPv6" if ":" in cidr else "IPv4",
                protocol="tcp", port_range_min=port, port_range_max=port, remote_ip_prefix=cidr,
            )  # fmt: skip
        for version in sorted(missing_families):
            self._network.create_security_group_rule(
                security_group_id=group.id, direction="ingress", ether_type=version, remote_group_id=group.id
            )
        return str(group.id)

    def _own_network(self, cloud: Cloud) -> Any:
        networks = list(self._network.networks())
        internal = [network for network in networks if not network.is_router_external] or networks
        return _one(networks if cloud.network else internal, cloud.network, "network")

    def _pool(self) -> Any:
        """The network that has floating addresses."""
        pools = list(self._network.networks(is_router_external=True))
        return _one(pools, self._cloud.floating_ip, "floating_ip")


PROVIDER = OpenStack


def _name(tag: str) -> str:
    return f"modak {tag}"


def _named(resources: Iterable[Any], name: str, kind: str) -> list[Any]:
    """Those of a name, or the one of an id.

    Raises:
        ModakError: there is none.
    """
    resources = list(resources)
    matches = [
        resource
        for resource in resources
        if name in (resource.id, resource.name) or fnmatchcase(resource.name or "", name)
    ]
    if not matches:
        hint = nearest(name, (resource.name for resource in resources if resource.name))
        raise ModakError(f"openstack has no {kind} {name} in this project and region", hint=hint)
    return matches


def _one(resources: list[Any], name: str, kind: str) -> Any:
    """The one that is named, or the only one.

    Raises:
        ModakError: none is, and there are several, or none at all.
    """
    matches = _named(resources, name, kind) if name else resources
    if len(matches) != 1:
        names = ", ".join(str(resource.name) for resource in matches)
        hint = f"{kind}: one of {names}" if matches else _NONE_THERE[kind]
        raise ModakError(f"openstack has {len(matches) or 'no'} networks that {kind} may name", hint=hint)
    return matches[0]


def _answer(ask: Callable[[], _Answer]) -> _Answer:
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
