"""Machines of Amazon's EC2, and of what speaks as it does; Amazon's own client asks for them.

Credentials, region and address are the client's: its variables, ``~/.aws``, a profile or a role.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from modak_ansible.errors import ModakError
from modak_ansible.model.target import Cloud, System
from modak_ansible.stages.clouds.base import (
    ANY,
    GIB,
    KEY_TAG,
    LOOK,
    OF_THE_SERVER,
    TAG,
    Answer,
    Instance,
    MachineRequest,
    NoCredentials,
    Parameters,
    client,
    does_not_answer,
    hosts_left,
    out_of_order,
    smallest,
    wait_until_gone,
)
from modak_ansible.store.machines import cluster_of

_LIVING = ("pending", "running", "stopping", "stopped")
_ARCHITECTURES = {"aarch64": "arm64"}
# Who publishes the images of a distribution, and by what names; as debian.org and ubuntu.com say.
_PUBLISHED = {
    "debian": ("136693071363", "debian-{version}-{machine}-*"),
    "ubuntu": ("099720109477", "ubuntu/images/hvm-ssd*/ubuntu-*-{version}-{machine}-server-*"),
}
_MACHINES = {"x86_64": "amd64", "arm64": "arm64"}
_LOGIN = "aws configure, AWS_PROFILE, or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of modak"
_Answer = TypeVar("_Answer")


class Aws:
    """One region of it."""

    title = "aws"

    def __init__(self, cloud: Cloud) -> None:
        boto3 = client("boto3", self.title)
        self._ec2 = _answer(lambda: boto3.client("ec2", region_name=cloud.region or None))

    def find(self, tag: str) -> list[Instance]:
        filters = [{"Name": f"tag:{TAG}", "Values": [tag]}, {"Name": "instance-state-name", "Values": [*_LIVING]}]
        pages = self._ec2.get_paginator("describe_instances").paginate(Filters=filters)
        reserved = _answer(lambda: [reservation for page in pages for reservation in page["Reservations"]])
        instances = (instance for reservation in reserved for instance in reservation["Instances"])
        return sorted(map(_instance_from, instances), key=lambda instance: (instance.since, instance.id))

    def prepare(self, request: MachineRequest) -> Parameters:
        return _answer(lambda: self._parameters(request))

    def create(self, parameters: Parameters, token: str) -> Instance | None:
        answer = _answer(lambda: self._ec2.run_instances(**parameters, ClientToken=token))
        (instance,) = answer["Instances"]
        return _instance_from(instance) if instance["State"]["Name"] in _LIVING else None

    def admit(self, request: MachineRequest) -> None:
        _answer(lambda: self._group(request))

    def settle(self, instance: Instance) -> None:
        if instance.state == "stopped":
            _answer(lambda: self._ec2.start_instances(InstanceIds=[instance.id]))

    def remove(self, instances: Sequence[Instance]) -> None:
        _answer(lambda: self._ec2.terminate_instances(InstanceIds=[instance.id for instance in instances]))
        deadline = wait_until_gone(self, instances)
        for cluster in {cluster_of(instance.tag) for instance in instances}:
            if not hosts_left(self, cluster):
                self._remove_group(cluster, deadline)

    def clear(self, tag: str) -> None:
        if not hosts_left(self, cluster_of(tag)):
            self._remove_group(cluster_of(tag), time.monotonic() + LOOK)

    # --- what goes with it

    def _remove_group(self, tag: str, deadline: float) -> None:
        """The group costs nothing: one that is in use still stays for the next time."""
        for group in self._groups(tag):
            while time.monotonic() < deadline:
                with suppress(ModakError):
                    _answer(lambda: self._ec2.delete_security_group(GroupId=group["GroupId"]))  # noqa: B023 - at once
                    break
                time.sleep(LOOK)

    def _groups(self, tag: str) -> list[Answer]:
        filters = [{"Name": f"tag:{TAG}", "Values": [tag]}]
        groups: list[Answer] = _answer(lambda: self._ec2.describe_security_groups(Filters=filters))["SecurityGroups"]
        return groups

    def _group(self, request: MachineRequest) -> str:
        """The id of the group that lets in whom the target names, a cluster's hosts to each other, and nobody else."""
        tag = cluster_of(request.tag)
        groups = self._groups(tag)
        if groups:
            group = str(groups[0]["GroupId"])
        else:
            place = {}
            if request.cloud.subnet:
                (subnet,) = self._ec2.describe_subnets(SubnetIds=[request.cloud.subnet])["Subnets"]
                place = {"VpcId": subnet["VpcId"]}
            created = self._ec2.create_security_group(
                GroupName=f"modak {tag}", Description="Who may enter a machine that modak deploys to",
                TagSpecifications=[_tags("security-group", {TAG: tag})], **place,
            )  # fmt: skip
            group = str(created["GroupId"])
        self._let_in(group, groups[0]["IpPermissions"] if groups else [], request)
        return group

    def _let_in(self, group: str, permissions: list[Answer], request: MachineRequest) -> None:
        allowed = {
            (ip_range.get("CidrIp") or ip_range["CidrIpv6"], rule["FromPort"])
            for rule in permissions
            for ip_range in [*rule.get("IpRanges", ()), *rule.get("Ipv6Ranges", ())]
            if "FromPort" in rule
        }
        requested = {(cidr, request.port) for cidr in request.ssh_from}
        if stale := allowed - requested:
            rules = [_rule(*entry) for entry in sorted(stale)]
            self._ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=rules)
        if new := requested - allowed:
            rules = [_rule(*entry) for entry in sorted(new)]
            self._ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=rules)
        if request.cloud.machines and not any(rule.get("UserIdGroupPairs") for rule in permissions):
            own_traffic = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
            self._ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[own_traffic])

    def _parameters(self, request: MachineRequest) -> Parameters:
        cloud, image = request.cloud, self._image(request.cloud)
        tags = {TAG: request.tag, KEY_TAG: request.host_key, "Name": request.name}
        group = self._group(request)
        parameters: Parameters = {
            "ImageId": image["ImageId"],
            "InstanceType": cloud.flavor or smallest(self._flavors(cloud), cloud, self.title),
            "MinCount": 1,
            "MaxCount": 1,
            "UserData": request.user_data,
            # its own timer, and whoever shuts it down, ends what it costs
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "TagSpecifications": [_tags("instance", tags), _tags("volume", {TAG: request.tag})],
        }
        if cloud.subnet:
            place = {"SubnetId": cloud.subnet, "Groups": [group], "AssociatePublicIpAddress": True}
            parameters["NetworkInterfaces"] = [{"DeviceIndex": 0, **place}]
        else:
            parameters["SecurityGroupIds"] = [group]
        if cloud.key:
            parameters["KeyName"] = cloud.key
        if cloud.shape.disk:
            disk = {"VolumeSize": -(-cloud.shape.disk // GIB), "DeleteOnTermination": True}
            parameters["BlockDeviceMappings"] = [{"DeviceName": image.get("RootDeviceName", "/dev/xvda"), "Ebs": disk}]
        if cloud.spot:
            max_price = {"MaxPrice": f"{request.most_per_hour:.6f}"} if request.most_per_hour else {}
            options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate", **max_price}
            parameters["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
        return parameters

    def _flavors(self, cloud: Cloud) -> list[tuple[str, int, int]]:
        filters = [
            {"Name": "processor-info.supported-architecture", "Values": [_architecture(cloud.system)]},
            {"Name": "current-generation", "Values": ["true"]},
            {"Name": "bare-metal", "Values": ["false"]},
            {"Name": "supported-usage-class", "Values": ["spot" if cloud.spot else "on-demand"]},
        ]
        pages = self._ec2.get_paginator("describe_instance_types").paginate(Filters=filters)
        return [
            (kind["InstanceType"], kind["VCpuInfo"]["DefaultVCpus"], kind["MemoryInfo"]["SizeInMiB"] * 1024**2)
            for page in pages
            for kind in page["InstanceTypes"]
        ]

    def _image(self, cloud: Cloud) -> Answer:
        """
        Raises:
            ModakError: there is none.
        """
        if cloud.image.startswith("ami-"):
            request: Answer = {"ImageIds": [cloud.image]}
        else:
            owner, pattern = image_name(cloud)
            request = {"Owners": [owner], "Filters": [{"Name": "name", "Values": [pattern]}]}
        images = [
            image for image in self._ec2.describe_images(**request)["Images"] if image.get("State") == "available"
        ]
        if not images:
            name = cloud.image or f"{request['Owners'][0]}/{request['Filters'][0]['Values'][0]}"
            raise ModakError(f"{self.title} has no image {name} in this region", hint="image: ami-..., or OWNER/NAME")
        newest: Answer = max(images, key=lambda image: str(image.get("CreationDate", "")))
        return newest


PROVIDER = Aws


def image_name(cloud: Cloud) -> tuple[str, str]:
    """The owner of an image and its name: by a name alone anybody's might be taken.

    Raises:
        ModakError: nobody is known to publish the system, or a name has no owner.
    """
    if cloud.image:
        owner, slash, name = cloud.image.partition("/")
        if not slash or not (owner.isdigit() or owner in ("self", "amazon")):
            hint = f"image: self/{cloud.image}, amazon/..., or the number of its owner's account before it"
            raise ModakError(f"the image {cloud.image} could be anybody's: its owner is not given", hint=hint)
        return owner, name
    system = cloud.system
    if system.distribution.lower() not in _PUBLISHED:
        hint = f"known are those of {', '.join(_PUBLISHED)}; for others name the image: OWNER/NAME"
        raise ModakError(f"no publisher of {system.distribution} at aws is known", hint=hint)
    owner, pattern = _PUBLISHED[system.distribution.lower()]
    machine = _MACHINES.get(_architecture(system), "amd64")
    return owner, pattern.format(version=system.version, machine=machine)


def _architecture(system: System) -> str:
    return _ARCHITECTURES.get(system.architecture, system.architecture)


def _instance_from(answer: Answer) -> Instance:
    tags = {tag["Key"]: tag["Value"] for tag in answer.get("Tags", ())}
    return Instance(
        id=answer["InstanceId"],
        tag=tags.get(TAG, ""),
        host_key=tags.get(KEY_TAG, ""),
        address=answer.get("PublicIpAddress") or "",
        flavor=answer["InstanceType"],
        since=answer["LaunchTime"].timestamp(),
        state=answer["State"]["Name"],
        runs=answer["State"]["Name"] in ("pending", "running"),
    )


def _tags(kind: str, tags: dict[str, str]) -> Answer:
    return {"ResourceType": kind, "Tags": [{"Key": name, "Value": value} for name, value in tags.items()]}


def _rule(cidr: str, port: int) -> Answer:
    ranges = {"Ipv6Ranges": [{"CidrIpv6": cidr}]} if ":" in cidr else {"IpRanges": [{"CidrIp": cidr}]}
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, **ranges}


def _answer(ask: Callable[[], _Answer]) -> _Answer:
    """An answer of EC2's.

    Raises:
        ModakError: it refuses, does not answer, or nobody said as whom it is asked.
    """
    from botocore import exceptions as of_client  # noqa: PLC0415 - slow to import

    try:
        return ask()
    except (of_client.NoCredentialsError, of_client.PartialCredentialsError, of_client.ProfileNotFound) as error:
        raise NoCredentials(f"aws: {error}", hint=_LOGIN) from error
    except of_client.NoRegionError as error:
        raise ModakError("aws: no region is named", hint="region: eu-central-1, or AWS_REGION") from error
    except (of_client.ConnectionError, of_client.HTTPClientError) as error:
        raise does_not_answer("aws", error) from error
    except of_client.ClientError as error:
        details = error.response.get("Error", {})
        code, message = details.get("Code", ""), details.get("Message", "")
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= OF_THE_SERVER:
            raise out_of_order("aws", message or code) from error
        raise ModakError(f"aws refuses: {message or code} ({code})", hint=_HINTS.get(code, ANY)) from error
    except of_client.BotoCoreError as error:
        raise ModakError(f"aws: {error}", hint=ANY) from error


_HINTS = {
    "AuthFailure": _LOGIN,
    "UnauthorizedOperation": "the account needs ec2:RunInstances, TerminateInstances, CreateTags, Describe* and "
    "security groups",
    "InsufficientInstanceCapacity": "another flavor, another region, or later",
    "VcpuLimitExceeded": "a smaller flavor, or ask for a higher quota",
    "MaxSpotInstanceCountExceeded": "spot: false, or later",
    "SpotMaxPriceTooLow": "a higher price_per_hour, spot: false, or later",
    "InvalidKeyPair.NotFound": "key: a key pair of that region, or none, and identity_file's own enters",
}
