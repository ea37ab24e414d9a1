"""What a script writes by names that reach it through parameters and attributes, and what it copies, comes back."""

from __future__ import annotations

import ast

import pytest

from modak_ansible.reading.drafts.outputs import outputs_of

SAVING = "def keep(state, is_best, name='last.pt'):\n    torch.save(state, name)\n"
STOPPING = "class Stopping:\n    def __init__(self, patience=7, path='best.pt'):\n        self.path = path\n"
STOPPING += "    def save(self, model):\n        torch.save(model, self.path)\n"


def outputs(options=None, **files):
    return outputs_of({f"{name}.py": ast.parse(text) for name, text in files.items()}, options or {})[0]


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        (f"{SAVING}keep(m, True)", ["last.pt"]),
        (f"{SAVING}keep(m, True)\nkeep(m, True, name='epoch_%d.pt' % e)", ["*.pt"]),
        (f"{SAVING}keep(m, True, 'net.pt')", ["net.pt"]),
        (f"{SAVING}keep(m, True, unknown())", []),
        (f"{SAVING}keep(*all)", []),
        (SAVING, []),
        ("def run(to='run1', by=2):\n    torch.save(m, f'{to}/a.pt')\nfire.Fire(run)", ["run1/a.pt"]),
        ("def run(out='run1', by=2):\n    torch.save(m, f'{out}/a.pt')\nfire.Fire(run)", ["here/a.pt"]),
        ("def keep(m, where):\n    torch.save(m, where)\nkeep(m, os.path.join('nets', 'a.pt'))", ["nets/a.pt"]),
        ("def keep(m, *, where=None):\n    torch.save(m, where or 'b.pt')", ["b.pt"]),
        ("def keep(m, out):\n    torch.save(m, out + '/a.pt')\nkeep(m, unknown())", ["here/a.pt"]),
        (f"{STOPPING}Stopping()", ["best.pt"]),
        (f"{STOPPING}Stopping(path='nets/a.pt')", ["nets/a.pt"]),
        ("def draw(to=''):\n    plt.savefig(to + 'a.png')\ndraw()", ["*a.png"]),
        (
            "last, best = w / 'last.pt', w / 'best.pt'\ntorch.save(m, best)\ntorch.save(m, last)",
            ["*/best.pt", "*/last.pt"],
        ),
        ("class Run:\n    def go(self):\n        self.to = 'x'\n        torch.save(m, self.to + '/a.pt')", ["x/a.pt"]),
        ("path = None\nif x:\n    path = 'a.pt'\ntorch.save(m, path)", ["a.pt"]),
        ("args.out = os.path.join(args.out, args.name)\ntorch.save(m, args.out + '/a.pt')", ["here/*/a.pt"]),
        ("to = os.environ.get('OUT', 'nets')\ntorch.save(m, os.path.join(to, 'a.pt'))", ["nets/a.pt"]),
        ("to = os.getenv('OUT', default='nets')\ntorch.save(m, f'{to}/a.pt')", ["nets/a.pt"]),
        ("open(os.environ.get('MODAK_METRICS', 'metrics.json'), 'w')", []),  # which a job has
        (
            "rows.to_netcdf('a.nc')\nrows.to_zarr('a.zarr')\nframe.sink_parquet('a.parquet')",
            ["a.nc", "a.parquet", "a.zarr"],
        ),
        ("ex.observers.append(FileStorageObserver('kept'))", ["kept"]),
        ("PPO('MlpPolicy', env, tensorboard_log='./tb/')", ["tb"]),
        ("eqx.tree_serialise_leaves('a.eqx', m)\nshapes.to_file('a.gpkg')", ["a.eqx", "a.gpkg"]),
        ("args.out = f'{args.out}/one'\ntorch.save(m, f'{args.out}/a.pt')", ["here/one/a.pt"]),
        ("if x:\n    args.out = args.out + '/one'\ntorch.save(m, f'{args.out}/a.pt')", ["here*/a.pt"]),
    ],
)
def test_what_is_written_is_known_through_parameters_and_attributes(text, patterns):
    assert outputs({"out": "here"}, a=text) == patterns


def test_what_another_file_gives_a_parameter_counts_in_place_of_its_default():
    assert outputs(tools=STOPPING, train="from tools import Stopping\nStopping(3)") == ["best.pt"]
    assert outputs(tools=STOPPING, train="from tools import Stopping\nStopping(3, 'mine.pt')") == ["mine.pt"]
    assert outputs(tools=STOPPING, train="from tools import Stopping\nStopping(path=where())") == []


def test_however_many_files_are_written_all_come_back():
    assert len(outputs(a="\n".join(f"torch.save(m, 'net_{n}.pt')" for n in range(40)))) == 40


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("shutil.copyfile('last.pt', 'best.pt')", ["best.pt"]),
        ("PPO('MlpPolicy', env).save('ppo')\ntf.train.Saver().save(sess, 'net/a.ckpt')", ["net/a.ckpt*", "ppo*"]),
        ("kinds = (Mine, SFTConfig)\nTrlParser(kinds).parse_args_and_config()", ["trainer_output"]),
        ("tf.train.CheckpointManager(kept, './ck', 3)\nocp.CheckpointManager('there/')", ["ck", "there"]),
        ("kinds = (Mine, Other)\nTrlParser(kinds)", []),
        ("torch.save(m, 'b.ckpt')\nnp.save('emb', a)\nset.save_to_disk('rows')", ["b.ckpt", "emb.npy", "rows"]),
        ("shutil.copy2(__file__, os.path.join('out', 'code'))", ["out/code"]),
        ("os.replace('a.tmp', 'a.pt')", ["a.pt"]),
        ("from shutil import copyfile\ncopyfile(a, 'b.pt')", ["b.pt"]),
        ("accelerator.save_checkpoint({'model': m}, filename='a.pt')", ["a.pt"]),
        ("frame.copy('x')\ntext.replace('a', 'b')", []),
    ],
)
def test_what_is_copied_or_moved_comes_back(text, patterns):
    assert outputs(a=text) == patterns
