"""What a user gets from `pip install .`: our four rooms, the demo model, nothing else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import PurePosixPath

import pytest

INSTALLED = {"tandem_jax", "pallas_kernels", "serving", "checkpoints"}
PROJECT_FILES = {"pyproject.toml", "README.md", "LICENSE", "NOTICE"}


@pytest.fixture(scope="module")
def wheel(root, tracked, tmp_path_factory):
    """Members of a wheel built offline from a copy of the tracked files."""
    checkout = tmp_path_factory.mktemp("checkout")
    for path in tracked:
        if path.parts[0] in INSTALLED | PROJECT_FILES:
            (checkout / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, checkout / path)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "out"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (checkout / "out").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return {PurePosixPath(name) for name in archive.namelist() if not name.endswith("/")}


@pytest.mark.slow
def test_top_level_names_are_exactly_the_four_rooms(wheel):
    tops = {path.parts[0] for path in wheel if not path.parts[0].endswith(".dist-info")}
    assert tops == INSTALLED


@pytest.mark.slow
def test_every_module_and_data_file_is_inside(wheel, tracked):
    """A package without `__init__.py`, or data left out of package-data, would be missing here."""
    ours = {path for path in tracked if path.parts[0] in INSTALLED}
    left_out = {path for path in ours - wheel if path.suffix != ".md"}
    assert left_out == set()


@pytest.mark.slow
def test_licence_notice_and_command_are_inside(wheel):
    names = {path.name for path in wheel if path.parts[0].endswith(".dist-info")}
    assert {"LICENSE", "NOTICE", "entry_points.txt"} <= names
