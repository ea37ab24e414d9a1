"""What the files of a project ask for, each kind as its own tool reads it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from modak_ansible.reading.drafts.pins import pins_of, plain

NAMES = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=8).filter(lambda name: name[0].isalpha())
VERSIONS = st.lists(st.integers(0, 99), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))


def lines(folder):
    return {name: (plain(pin.requirement), pin.source) for name, pin in pins_of([folder]).asked.items()}


def test_files_that_conda_hands_on_to_pip_are_read(tmp_path):
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "gpu.txt").write_text("einops==0.7\n-r more.txt\n")
    (tmp_path / "pip" / "more.txt").write_text("tqdm  # shown\n")
    (tmp_path / "environment.yml").write_text(
        "dependencies: [ python=3.11, { pip: [ -r pip/gpu.txt, -r gone.txt ] } ]\n"
    )
    source = "environment.yml"
    assert lines(tmp_path) == {"einops": ("einops==0.7", source), "tqdm": ("tqdm", source)}
    assert pins_of([tmp_path]).notes == ["environment.yml names gone.txt, which is not there"]


def test_requirements_txt(tmp_path):
    (tmp_path / "more.txt").write_text("tqdm>=4\n-r requirements.txt\n")
    (tmp_path / "requirements.txt").write_text(
        "# a comment\nnumpy==1.26.4+computecanada  # why\nPyYAML>=6,<7\n-r more.txt\n--index-url https://example.org\n-e .\n"
        "pip @ https://example.org/pip.zip\nscikit_learn[alldeps] == 1.5 \\\n  --hash=sha256:00\n"
        'tomli; python_version < "3"\neinops\n'
        "-c bounds.txt\n-r gone.txt\n-c https://example.org/c.txt\n???\n./wheels/mine-1.0-py3-none-any.whl\ngit+https://example.org/x/tool.git@v1\n"
        "-e ../lib\n"
    )
    (tmp_path / "bounds.txt").write_text("einops<1\n")
    assert lines(tmp_path) == {
        "numpy": ("numpy==1.26.4", "requirements.txt"),
        "pyyaml": ("PyYAML<7,>=6", "requirements.txt"),
        "tqdm": ("tqdm>=4", "requirements.txt"),
        "scikit-learn": ("scikit_learn[alldeps]==1.5", "requirements.txt"),
        "einops": ("einops<1", "requirements.txt"),
    }
    pins = pins_of([tmp_path])
    assert {name: each.is_here for name, each in pins.elsewhere.items() if name != canonicalize_name(tmp_path.name)} == {
        "pip": False, "mine": True, "tool": False, "lib": True,
    }  # fmt: skip
    assert pins.elsewhere["mine"].said == "requirements.txt: ./wheels/mine-1.0-py3-none-any.whl"
    where = "the target's file says where packages come from (pip_extra_index_urls, pip_find_links)"
    assert pins.notes == [
        "requirements.txt names gone.txt, which is not there",
        "requirements.txt names https://example.org/c.txt, which is an address, and not read",
        f"requirements.txt: --index-url is not followed: {where}",
        "requirements.txt: ??? is not a requirement, and is ignored",
    ]


def test_a_package_that_stands_for_another_is_that(tmp_path):
    """Those of these names in the index refuse to be built."""
    (tmp_path / "requirements.txt").write_text("sklearn==0.0\npytorch==2.1\ntensorflow-gpu==2.10\n")
    assert {name: line for name, (line, _) in lines(tmp_path).items()} == {
        "scikit-learn": "scikit-learn", "torch": "torch==2.1", "tensorflow": "tensorflow==2.10",
    }  # fmt: skip


def test_conda(tmp_path):
    (tmp_path / "environment.yml").write_text(
        "dependencies:\n  - python=3.11\n  - pytorch=2.1\n  - conda-forge::numpy=1.26.4=py311h1\n  - pandas>=2\n"
        "  - scipy ==1.11\n  - einops\n  - timm 1.0.9 pyh_0\n  - rich 13.*\n  - fire=0.6*\n  - dask >=2,<3|5\n  - pip\n  - pip:\n    - tqdm==4.66\n"
    )
    found = {name: line for name, (line, _) in lines(tmp_path).items()}
    assert found == {
        "torch": "torch==2.1.*", "numpy": "numpy==1.26.4", "pandas": "pandas>=2", "scipy": "scipy==1.11",
        "einops": "einops", "timm": "timm==1.0.9", "rich": "rich==13.*", "fire": "fire==0.6.*", "dask": "dask",
        "pip": "pip", "tqdm": "tqdm==4.66",
    }  # fmt: skip


@pytest.mark.parametrize(("file", "table"), [("pixi.toml", ""), ("pyproject.toml", "tool.pixi.")])
def test_pixi(tmp_path, file, table):
    (tmp_path / file).write_text(
        f'[{table}dependencies]\npython = "3.12.*"\npytorch = "2.1.*"\npandas = ">=2,<3"\nscipy = "1.11.4"\neinops = "*"\n'
        f'numpy = {{ version = "~=1.26", channel = "conda-forge" }}\n'
        f'[{table}pypi-dependencies]\ntqdm = "==4.66"\nrich = "*"\ntyper = {{ version = ">=0.12", extras = ["all"] }}\n'
        f'own = {{ path = ".", editable = true }}\n'
    )
    found = {name: line for name, (line, _) in lines(tmp_path).items()}
    assert found == {
        "torch": "torch==2.1.*", "pandas": "pandas<3,>=2", "scipy": "scipy==1.11.4", "einops": "einops",
        "numpy": "numpy~=1.26", "tqdm": "tqdm==4.66", "rich": "rich", "typer": "typer>=0.12",
    }  # fmt: skip


def test_pyproject_and_locks_of_which_the_lock_goes_first(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy>=1.20", "rich"]\n'
        '[tool.poetry.dependencies]\npython = "^3.11"\npandas = "^2.1"\nscipy = "~1.11.2"\nold = "^0.3.1"\nplain = "1.2"\n'
        'own = { path = "../own" }\n[tool.uv.sources]\nrich = { git = "https://example.org/rich" }\n'
    )
    found = {name: line for name, (line, _) in lines(tmp_path).items()}
    assert found == {
        "numpy": "numpy>=1.20", "rich": "rich", "pandas": "pandas<3,>=2.1", "scipy": "scipy<1.12,>=1.11.2",
        "old": "old<0.4,>=0.3.1", "plain": "plain==1.2",
    }  # fmt: skip
    (tmp_path / "uv.lock").write_text(
        '[[package]]\nname = "numpy"\nversion = "2.0.1"\nsource = { registry = "https://pypi.org/simple" }\n'
        '[[package]]\nname = "torch"\nversion = "2.5.1+cpu"\n'
        '[[package]]\nname = "mine"\nversion = "0.1"\nsource = { editable = "." }\n'
    )
    found = lines(tmp_path)
    assert found["numpy"] == ("numpy==2.0.1", "uv.lock")
    assert found["torch"] == ("torch==2.5.1", "uv.lock")
    assert "mine" not in found
    assert found["rich"] == ("rich", "pyproject.toml")


@pytest.mark.parametrize(
    "text",
    ['[project]\nname = "My_Own"\n', '[tool.poetry]\nname = "My_Own"\n', '[project]\n[tool.poetry]\nname = "my-own"'],
)
def test_a_project_itself_is_asked_of_no_index(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    assert pins_of([tmp_path]).elsewhere["my-own"].is_here


def test_a_damaged_file_asks_for_nothing(tmp_path):
    (tmp_path / "requirements.txt").write_bytes(b"\xfd\xfc==\n numpy == = 1\ntqdm\n")
    for name in ("uv.lock", "pyproject.toml", "environment.yml"):
        (tmp_path / name).write_text("[[[ : {")
    assert set(lines(tmp_path)) == {"tqdm"}
    for name in ("uv.lock", "pyproject.toml", "environment.yml"):
        assert any(
            note.startswith(f"{name} cannot be read, and asks for nothing: ") for note in pins_of([tmp_path]).notes
        )


@given(st.dictionaries(NAMES, VERSIONS, min_size=1, max_size=5))
def test_each_kind_says_the_same_of_the_same_pins(tmp_path_factory, wanted):
    """However a project writes it down that it has these versions."""
    forms = {
        "requirements.txt": "".join(f"{name}=={version}\n" for name, version in wanted.items()),
        "uv.lock": "".join(
            f'[[package]]\nname = "{name}"\nversion = "{version}"\n' for name, version in wanted.items()
        ),
        "environment.yml": "dependencies:\n- pip:\n"
        + "".join(f"  - {name}=={version}\n" for name, version in wanted.items()),
        "pyproject.toml": "[project]\ndependencies = ["
        + ", ".join(f'"{name}=={version}"' for name, version in wanted.items())
        + "]\n",
    }
    said = []
    for name, text in forms.items():
        folder = tmp_path_factory.mktemp("pins")
        (folder / name).write_text(text)
        said.append({each: str(pin.requirement.specifier) for each, pin in pins_of([folder]).asked.items()})
    assert all(each == said[0] for each in said)
    assert said[0] == {canonicalize_name(name): f"=={version}" for name, version in wanted.items()}


@given(st.text())
def test_whatever_stands_there_what_is_read_is_a_requirement(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("any")
    for name in ("requirements.txt", "environment.yml", "pyproject.toml", "uv.lock"):
        (folder / name).write_text(text, encoding="utf-8", errors="replace")
    for name, pin in pins_of([folder]).asked.items():
        assert canonicalize_name(Requirement(plain(pin.requirement)).name) == name


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_byte_order_mark_says_how_it_is_written(tmp_path, encoding):
    (tmp_path / "requirements.txt").write_text("einops==0.8\n", encoding=encoding)
    found = pins_of([tmp_path])
    assert (str(found.asked["einops"].requirement), found.notes) == ("einops==0.8", [])


@pytest.mark.parametrize(("python", "version"), [("3.13", "2.1"), ("3.11", "1.26.4")])
def test_of_a_lock_with_forks_the_version_for_the_image_counts(tmp_path, python, version):
    (tmp_path / "uv.lock").write_text(
        "".join(
            f'[[package]]\nname = "numpy"\nversion = "{number}"\nresolution-markers = {markers}\n'
            for number, markers in (
                ("2.2", ["sys_platform == 'darwin'"]),
                ("1.26.4", ["sys_platform == 'win32'", "python_full_version < '3.12'"]),
                ("2.1", ["python_full_version >= '3.12' and sys_platform == 'linux'"]),
            )
        )
    )
    assert plain(pins_of([tmp_path], python=python).asked["numpy"].requirement) == f"numpy=={version}"
    (tmp_path / "uv.lock").unlink()
    (tmp_path / "poetry.lock").write_text(
        '[[package]]\nname = "numpy"\nversion = "1.0"\nmarkers = "sys_platform == \\"win32\\""\n'
        '[[package]]\nname = "numpy"\nversion = "3.0"\nmarkers = { main = "no marker" }\n'
    )
    assert plain(pins_of([tmp_path], python=python).asked["numpy"].requirement) == "numpy==3.0"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = [1]\n'),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = "numpy"\n'),
        ("pyproject.toml", '[project]\nname = "x"\ndependencies = [["numpy"]]\n'),
        ("environment.yml", "dependencies: numpy\n"),
        ("environment.yml", "dependencies: [ { pip: numpy } ]\n"),
        ("environment.yml", "[\n" * 1000),
    ],
)
def test_a_file_of_another_form_asks_for_nothing_and_is_told(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    pins = pins_of([tmp_path])
    assert pins.asked == {}
    assert [note.partition(":")[0] for note in pins.notes] == [f"{file} cannot be read, and asks for nothing"]


@pytest.mark.parametrize("dependencies", ["[1]", '"numpy"'])
def test_a_script_whose_own_table_is_of_another_form_asks_for_nothing(tmp_path, dependencies):
    script = tmp_path / "train.py"
    script.write_text(f"# /// script\n# dependencies = {dependencies}\n# ///\n")
    pins = pins_of([tmp_path], script)
    assert (pins.asked, pins.inline, len(pins.notes)) == ({}, [], 1)


def test_a_line_with_a_null_byte_is_told(tmp_path):
    (tmp_path / "requirements.txt").write_text("./a\0b\nnumpy\n")
    pins = pins_of([tmp_path])
    assert list(pins.asked) == ["numpy"]


def test_a_requirements_txt_that_conda_or_pip_list_wrote_is_read(tmp_path):
    (tmp_path / "requirements.txt").write_text(
        "# platform: linux-64\n_libgcc_mutex=0.1=main\npython=3.8.5=h7579374_1\npytorch=1.8.1=py3.8_cuda11.1_cudnn8.0.5_0\n"
        "tqdm=4.59.0=pypi_0\n"
    )
    found = {name: line for name, (line, _) in lines(tmp_path).items()}
    assert found == {"torch": "torch==1.8.1", "tqdm": "tqdm==4.59.0"}
    assert pins_of([tmp_path]).notes == []
    (tmp_path / "requirements.txt").write_text(
        "Package         Version\n--------------- -----------\nabsl-py         0.10.0\ntorch           1.8.1+cu111\n"
    )
    found = {name: line for name, (line, _) in lines(tmp_path).items()}
    assert found == {"absl-py": "absl-py==0.10.0", "torch": "torch==1.8.1"}
    assert pins_of([tmp_path]).notes == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pdm.lock", '[metadata]\ngroups = ["default"]\n[[package]]\nname = "einops"\nversion = "0.7.0"\n'),
        ("pylock.toml", 'lock-version = "1.0"\n[[packages]]\nname = "einops"\nversion = "0.7.0"\n'),
        ("pixi.lock",
         "version: 6\npackages:\n- conda: https://conda.anaconda.org/conda-forge/linux-64/pytorch-2.1.0-cpu_py311.conda\n"
         "  sha256: aa\n- conda: https://conda.anaconda.org/conda-forge/osx-64/rich-13.0-py_0.conda\n"
         "- pypi: https://files.example/einops-0.7.0-py3-none-any.whl\n  name: einops\n  version: 0.7.0\n  sha256: aa\n"),
        ("Pipfile", '[packages]\neinops = "==0.7.0"\ntqdm = "*"\nown = { path = ".", editable = true }\n[dev-packages]\nrich = "*"\n'),
        ("Pipfile.lock", '{"default": {"einops": {"version": "==0.7.0"}}, "develop": {"rich": {"version": "==1.0"}}}'),
        ("setup.cfg", "[options]\ninstall_requires =\n    einops==0.7.0\n    tqdm\n"),
        ("setup.py", "from setuptools import setup\nNEEDED = ['einops==0.7.0']\nsetup(install_requires=NEEDED)\n"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['einops==0.7.0', *more])\n"),
        ("pyproject.toml", '[tool.setuptools.dynamic]\ndependencies = { file = ["needed.txt"] }\n'),
    ],
)  # fmt: skip
def test_other_tools_files(tmp_path, file, text):
    (tmp_path / "needed.txt").write_text("einops==0.7.0\n")
    (tmp_path / file).write_text(text)
    pins, found = pins_of([tmp_path]), lines(tmp_path)
    assert found["einops"] == ("einops==0.7.0", file)
    assert not pins.notes
    assert {*found} <= {"einops", "torch", "tqdm"}


@pytest.mark.parametrize("text", ["[", "{", "\0", "x", "[options", "[packages]\na = [1]\n"])
@pytest.mark.parametrize("file", ["pdm.lock", "pixi.lock", "Pipfile", "Pipfile.lock", "setup.cfg", "setup.py"])
def test_what_cannot_be_read_asks_for_nothing(tmp_path, file, text):
    (tmp_path / file).write_text(text)
    assert not {*lines(tmp_path)} - {"a"}


def test_extras_and_groups_come_last_and_are_told_apart(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["rich"]\n[project.optional-dependencies]\ntrain = ["timm==1.0", "rich==13"]\n'
        '[dependency-groups]\ndev = [{ include-group = "test" }, "peft==0.1"]\n'
        '[tool.poetry.group.gpu.dependencies]\ntrl = "^0.8"\n[tool.hatch.envs.default]\ndependencies = ["tqdm"]\n'
    )
    source = "pyproject.toml, optional"
    assert lines(tmp_path) == {
        "rich": ("rich==13", source), "timm": ("timm==1.0", source), "peft": ("peft==0.1", source),
        "trl": ("trl<0.9,>=0.8", source), "tqdm": ("tqdm", source),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "other"),
    [
        ("einops==0.6", "einops==0.7", "einops==0.7 (environment.yml)"),
        ("einops>=0.7", "einops==0.6", "einops==0.6 (environment.yml)"),
        ("einops==0.6.0", "einops==0.6", ""),
        ("einops==0.6.1", "einops>=0.6", ""),
        ("einops==0.6.*", "einops==0.6.1", ""),
        ("einops", "einops==0.6", ""),
    ],
)
def test_versions_that_contradict_each_other(tmp_path, first, second, other):
    (tmp_path / "requirements.txt").write_text(f"{first}\n")
    (tmp_path / "environment.yml").write_text(f"dependencies: [ {{ pip: [ {second} ] }} ]\n")
    assert pins_of([tmp_path]).asked["einops"].other == other


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("environment.yml", "dependencies: [ python=3.9.7, numpy ]\n", "==3.9.*"),
        ("environment.yml", "dependencies: [ python, numpy ]\n", ""),
        ("pixi.toml", '[dependencies]\npython = "3.10.*"\n', "==3.10.*"),
        ("Pipfile", '[requires]\npython_version = "3.8"\n[packages]\n', "==3.8.*"),
        ("pyproject.toml", '[project]\nrequires-python = ">=3.8,<3.11"\n', "<3.11,>=3.8"),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.9"\n', "<4,>=3.9"),
        (".python-version", "3.11.4\n", "==3.11.*"),
        (".python-version", "pypy3.9-7.3\n", None),
    ],
)
def test_the_python_that_a_project_is_for(tmp_path, file, text, said):
    (tmp_path / file).write_text(text)
    pins = pins_of([tmp_path])
    assert {str(each) for each, _ in pins.pythons} - {""} == {said} - {"", None}
    assert "python" not in pins.asked
