"""How a script's processes learn which of them each is, read in its source."""

from __future__ import annotations

import pytest
from script_files import written

from modak_ansible.reading.blueprint.script.parallelism import parallelism_of

BEGIN = "import os, torch.distributed as dist\n"
SPAWN = BEGIN + "import torch.multiprocessing as mp\n"
OPTION = (
    BEGIN + "import argparse\np = argparse.ArgumentParser()\np.add_argument('--local_rank', type=int, default={})\n"
    "args = p.parse_args()\ndist.init_process_group('nccl')\n"
)
USE = "torch.cuda.set_device(args.local_rank)\n"


def found(folder, **texts):
    return parallelism_of(folder, written(folder, **texts))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (SPAWN + "dist.init_process_group('nccl', rank=rank, world_size=n)\nmp.spawn(work, nprocs=n)", "multiprocessing.spawn"),
        (SPAWN + "os.environ['RANK'] = str(rank)\ndist.init_process_group()\nmp.start_processes(work)", "start_processes"),
        (SPAWN + "dist.init_process_group('gloo', rank=rank, world_size=n)\nmp.Process(target=work)", "multiprocessing.Process"),
        (BEGIN + "from multiprocessing import Process\ndist.init_process_group('gloo', rank=i, world_size=n)\nProcess()",
         "multiprocessing.Process"),
    ],
)  # fmt: skip
def test_a_script_that_starts_its_own_processes_is_seen(tmp_path, text, name):
    seen = found(tmp_path, train=text)
    assert seen.by == "spawn"
    assert seen.name.endswith(name)
    assert seen.place.startswith("train.py:")


@pytest.mark.parametrize(
    "text",
    [
        SPAWN + "rank = int(os.environ['RANK'])\ndist.init_process_group('nccl', rank=rank)\nmp.spawn(work)",
        SPAWN + "node = os.environ.get('SLURM_PROCID')\ndist.init_process_group(rank=node)\nmp.spawn(work)",
        SPAWN + "dist.init_process_group('nccl')\nmp.Process(target=write_logs)",
        SPAWN
        + "import socket\nnode = nodes.index(socket.gethostname())\ndist.init_process_group(rank=node)\nmp.spawn(work)",
    ],
)
def test_one_that_is_told_who_it_is_is_not_taken_for_it(tmp_path, text):
    assert found(tmp_path, train=text).by == "ranks"


def test_what_starts_processes_for_something_else_is_none_that_trains(tmp_path):
    text = SPAWN + "dist.init_process_group('nccl')\ngpu = dist.get_rank() % 4\nmp.spawn(tokenize, nprocs=8)"
    assert found(tmp_path, train=text).by == "ranks"


def test_a_file_beside_it_counts_which_names_nothing_else(tmp_path):
    text = SPAWN + "import place\ndist.init_process_group('nccl', rank=place.rank)\nmp.spawn(work)"
    assert found(tmp_path, train=text, place="import os\nrank = os.environ['RANK']").by == "ranks"


@pytest.mark.parametrize(
    ("text", "option", "is_first"),
    [
        (OPTION.format(-1) + USE, "--local_rank (train.py:4)", False),
        (OPTION.format(0) + USE, "--local_rank (train.py:4)", True),
        (OPTION.format("int(os.environ['LOCAL_RANK'])") + USE, "", False),
        (OPTION.format(0) + "args.local_rank = dist.get_rank() % 4\n" + USE, "", False),
        (OPTION.format(0), "", False),  # which torch.distributed.launch wanted, and nothing uses
        (OPTION.format(0) + "engine.local_rank", "", False),
        (OPTION.format(None) + "local = args.local_rank or dist.get_rank() % 4", "", False),
        (OPTION.format(-1) + "local = dist.get_rank() if args.local_rank < 0 else args.local_rank", "", False),
        (OPTION.format(0) + USE + "from accelerate import Accelerator\nAccelerator()", "", False),
    ],
)
def test_a_number_that_comes_by_an_option_alone(tmp_path, text, option, is_first):
    seen = found(tmp_path, train=text)
    assert (seen.option, seen.is_first) == (option, is_first)


RANK = OPTION.replace("local_rank", "rank").replace("'nccl'", "'gloo', init_method='tcp://a:1', rank=args.rank")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        (RANK.format(0), "--rank (train.py:4)"),
        (RANK.format("int(os.environ['RANK'])"), ""),
        (RANK.format("int(os.environ['PALS_RANKID'])"), ""),
        (RANK.format("int(os.environ['JSM_NAMESPACE_RANK'])"), ""),
        (RANK.format(0) + "if args.url == 'env://':\n    args.rank = int(os.environ['RANK'])\n", ""),
        (RANK.format(0) + "args.rank = ranks[platform.node()]", ""),
        (RANK.format(0) + "import socket\nargs.world_size = worlds[socket.gethostname()]", ""),
    ],
)
def test_a_rank_that_comes_by_an_option_alone(tmp_path, text, option):
    seen = found(tmp_path, train=text)
    assert (seen.option, seen.is_first) == (option, False)


TOLD = "rank = int(os.environ['RANK'])\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("os.environ['MASTER_ADDR'] = 'localhost'\ndist.init_process_group()", "localhost (train.py:3)"),
        ("dist.init_process_group('gloo', init_method='tcp://127.0.0.1:23456', rank=rank)", "tcp://127.0.0.1:23456 (train.py:3)"),
        ("dist.init_process_group('gloo', 'tcp://localhost:1', rank=rank)", "tcp://localhost:1 (train.py:3)"),
        ("def setup():\n    os.environ['MASTER_ADDR'] = '127.0.0.1'\ndist.init_process_group()", "127.0.0.1 (train.py:4)"),
        ("if __name__ == '__main__':\n    os.environ['MASTER_ADDR'] = 'localhost'\ndist.init_process_group()",
         "localhost (train.py:4)"),
        ("os.environ['MASTER_ADDR'] = args.address\ndist.init_process_group()", ""),
        ("os.environ.setdefault('MASTER_ADDR', 'localhost')\ndist.init_process_group()", ""),
        ("if args.local:\n    os.environ['MASTER_ADDR'] = 'localhost'\ndist.init_process_group()", ""),
        ("def setup():\n    if 'RANK' in os.environ:\n        dist.init_process_group()\n        return\n"
         "    os.environ['MASTER_ADDR'] = 'localhost'\n    dist.init_process_group(rank=0, world_size=1)", ""),
        ("os.environ['MASTER_ADDR'] = 'localhost'\nif args.host:\n    os.environ['MASTER_ADDR'] = args.host\n"
         "dist.init_process_group()", ""),
        ("if 'MASTER_ADDR' not in os.environ:\n    os.environ['MASTER_ADDR'] = 'localhost'\ndist.init_process_group()", ""),
        ("dist.init_process_group('gloo', init_method='env://')", ""),
    ],
)  # fmt: skip
def test_processes_that_would_meet_on_their_own_node(tmp_path, text, place):
    assert found(tmp_path, train=BEGIN + TOLD + text).meets_at == place


WORKERS = "import json, os\nimport tensorflow as tf\n{}\ntf.distribute.MultiWorkerMirroredStrategy()\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("os.environ['TF_CONFIG'] = json.dumps({'task': {'index': 0}})", "train.py:3"),
        ("os.environ['TF_CONFIG'] = json.dumps({'task': {'index': args.index}})", "train.py:3"),  # the same in all
        ("os.environ['TF_CONFIG'] = json.dumps({'task': {'index': int(os.environ['RANK'])}})", ""),
        ("if 'TF_CONFIG' not in os.environ:\n    os.environ['TF_CONFIG'] = json.dumps({})", ""),
        ("import socket\nos.environ['TF_CONFIG'] = config[socket.gethostname()]", ""),
        ("", ""),
    ],
)
def test_workers_of_tensorflow_that_are_told_the_same(tmp_path, text, place):
    seen = found(tmp_path, train=WORKERS.format(text))
    assert (seen.by, seen.option) == ("tf_config", place)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("dist.init_process_group('nccl')", True),
        ("torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\ndist.init_process_group('nccl')", True),
        ("dist.init_process_group(rank=int(os.environ['RANK']), world_size=1, init_method='tcp://a:1')", True),
        ("dist.init_process_group()\nlocal = int(os.environ.get('LOCAL_RANK', 0))", True),
        (
            "dist.init_process_group(rank=int(os.getenv('RANK', '0')), world_size=int(os.getenv('WORLD_SIZE', '1')))",
            True,
        ),
        ("os.environ['MASTER_ADDR'] = 'localhost'\ndist.init_process_group('gloo', rank=0, world_size=1)", False),
        ("os.environ.setdefault('RANK', '0')\ndist.init_process_group('gloo')", False),
        ("dist.init_process_group('gloo', 'tcp://localhost:1', rank=0, world_size=1)", False),
        (
            "dist.init_process_group(rank=int(os.environ['SLURM_PROCID']), init_method='tcp://' + os.environ['MASTER_ADDR'])",
            True,
        ),
        (
            "os.environ['MASTER_ADDR'] = head()\nprint(os.environ['MASTER_ADDR'])\ndist.init_process_group('gloo', rank=0)",
            False,
        ),
        ("import deepspeed\ndeepspeed.initialize(args=args)", True),
        ("dist.init_process_group()\nlocal = int(os.environ.get('LOCAL_RANK'))", True),
        ("dist.init_process_group()\nlocal = os.environ.get('LOCAL_RANK')", False),
        ("if [0] in seen and os.environ[names[0]]:\n    dist.init_process_group()", True),
        ("if args.distributed:\n    dist.init_process_group()", True),
        ("if 'RANK' in os.environ:\n    dist.init_process_group(rank=int(os.environ['RANK']))", False),
        ("if int(os.environ.get('RANK', -1)) != -1:\n    dist.init_process_group()", False),
        ("if os.getenv('WORLD_SIZE'):\n    dist.init_process_group()", False),
        ("try:\n    rank = os.environ['RANK']\nexcept KeyError:\n    rank = 0\ndist.init_process_group()", False),
        ("if dist.is_torchelastic_launched():\n    dist.init_process_group()", False),
        ("dist.init_process_group('gloo', rank=0, world_size=1, init_method='tcp://a:1')", False),
        ("os.environ['RANK'] = '0'\ndist.init_process_group(store=store, rank=0)", False),
    ],
)
def test_whether_one_process_ends_without_being_told_that_it_is_alone(tmp_path, text, needs):
    assert found(tmp_path, train=BEGIN + text).needs_words is needs


def test_one_process_that_slurms_variables_mislead(tmp_path):
    text = (
        "if 'RANK' in os.environ:\n    rank = int(os.environ['RANK'])\n"
        "elif 'SLURM_PROCID' in os.environ:\n    rank = int(os.environ['SLURM_PROCID'])\n"
        "dist.init_process_group('nccl', init_method=args.dist_url, rank=rank)"
    )
    seen = found(tmp_path, train=BEGIN + text)
    assert (seen.needs_words, seen.asks_slurm, seen.asks_port) == (False, True, False)
    seen = found(tmp_path, train=BEGIN + text.replace("SLURM_PROCID", "OTHERS"))
    assert (seen.needs_words, seen.asks_slurm) == (False, False)
    text = "dist.init_process_group('gloo', init_method=f\"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}\")"
    assert found(tmp_path, train=BEGIN + text).asks_port
    text = "dist.init_process_group('gloo', rank=int(os.environ['RANK']) * 4 + i, world_size=4)\nmp.spawn(work)"
    seen = found(tmp_path, train=SPAWN + text)  # whose processes would not find each other at any free port
    assert (seen.by, seen.needs_words, seen.asks_port) == ("ranks", True, True)


def test_others_do_without_words(tmp_path):
    assert not found(tmp_path, train="import lightning\nlightning.Trainer()").needs_words
    assert not found(tmp_path, train="from accelerate import Accelerator\nAccelerator()").needs_words
