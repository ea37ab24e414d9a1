"""Clusters that no recording is of, in the words of the manual pages of scontrol, slurm.conf, gres.conf and Torque."""

from __future__ import annotations


def slurm_node(name: str, **changes: str) -> str:
    """A line of ``scontrol --oneliner show node``."""
    values = {
        "NodeName": name, "Arch": "x86_64", "CoresPerSocket": "24", "CPUAlloc": "0", "CPUEfctv": "96", "CPUTot": "96",
        "CPULoad": "0.50", "AvailableFeatures": "rack1,skylake", "Gres": "(null)", "OS": "Linux 5.14.0-362.el9 #1 SMP Tue",
        "RealMemory": "191000", "Sockets": "2", "Boards": "1", "State": "IDLE", "ThreadsPerCore": "2",
        "Partitions": "batch", **changes,
    }  # fmt: skip
    return " ".join(f"{key}={value}" for key, value in values.items() if value is not None)


def slurm_partition(name: str, **changes: str) -> str:
    """A line of ``scontrol --oneliner show partition``."""
    values = {
        "PartitionName": name, "AllowGroups": "ALL", "AllowAccounts": "ALL", "AllowQos": "ALL", "AllocNodes": "ALL",
        "Default": "NO", "QoS": "N/A", "DefaultTime": "NONE", "Hidden": "NO", "MaxNodes": "UNLIMITED",
        "MaxTime": "UNLIMITED", "MaxCPUsPerNode": "UNLIMITED", "Nodes": "n[001-128,130]", "RootOnly": "NO",
        "State": "UP", "TotalCPUs": "12384", "TotalNodes": "129", "MaxMemPerNode": "UNLIMITED", **changes,
    }  # fmt: skip
    return " ".join(f"{key}={value}" for key, value in values.items() if value is not None)


NODES = "\n".join(
    [
        *(slurm_node(f"n{number:03}", Partitions="batch,long,gpu") for number in (1, 2, 3)),
        slurm_node("n004", Partitions="batch,long", State="DOWN*+DRAIN", Reason="disk a=b [root@2026-01-01]"),
        slurm_node("n005", Partitions="batch,long", State="IDLE+CLOUD+POWERED_DOWN"),
        slurm_node("n006", Partitions="batch", State="FUTURE"),
        slurm_node(
            "g001", Partitions="gpu", Gres="gpu:a100:4(S:0-1),mps:a100:400", CPUEfctv="64", CPUTot="64",
            CoresPerSocket="32", ThreadsPerCore="1", RealMemory="515000", State="MIXED",
        ),
        slurm_node("g002", Partitions="gpu", Gres="gpu:v100:2(S:0),gpu:a100_3g.20gb:1", RealMemory="380000"),
    ]
)  # fmt: skip
PARTITIONS = "\n".join(
    [
        slurm_partition("batch", Default="YES", MaxTime="2-00:00:00", MaxNodes="4", MaxMemPerNode="180000"),
        slurm_partition("long", AllowGroups="physics,chemistry"),
        slurm_partition("gpu", Hidden="YES", QoS="short", MaxCPUsPerNode="32"),
        slurm_partition("old", State="DOWN", Nodes="(null)", TotalNodes="0", TotalCPUs="0"),
        slurm_partition("admin", RootOnly="YES"),
        slurm_partition("paid", AllowAccounts="money"),
        slurm_partition("summed", Nodes="x[1-4]", TotalNodes="4", TotalCPUs="128", TRES="cpu=128,mem=512G,node=4"),
    ]
)

TORQUE_NODES = """\
fat01
     state = free
     np = 40
     properties = fat,bigmem
     ntype = cluster
     status = rectime=1,opsys=linux,uname=Linux fat01 3.10.0 #1 SMP x86_64,ncpus=40,physmem=1056760kb,state=free
     gpus = 2
     gpu_status = gpu[1]=gpu_id=0000:82:00.0;gpu_product_name=Tesla K80

thin01
     state = offline,down
     np = 16
     properties = thin
     ntype = cluster

thin02
     state = job-exclusive
     np = 16
     properties = thin
     ntype = cluster
     status = uname=Linux thin02 3.10.0 #1 SMP x86_64,ncpus=16,physmem=65gb

"""
TORQUE_QUEUES = """\
Queue: route
    queue_type = Route
    route_destinations = thin,fat
    enabled = True
    started = True

Queue: thin
    queue_type = Execution
    resources_default.neednodes = thin
    resources_max.walltime = 7:00:00:00
    resources_max.nodect = 2
    enabled = True
    started = True

Queue: fat
    queue_type = Execution
    resources_default.neednodes = fat:ppn=40
    resources_max.walltime = 86400
    acl_group_enable = True
    acl_groups = physics,chemistry
    enabled = True
    started = True

"""
TORQUE_SERVER = """\
Server: head.example
    default_queue = route
    pbs_version = 4.2.10
    resources_max.walltime = 240:00:00

"""
