"""An S3 server that runs here (moto), in an environment of its own below ``build/fleet``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.paths import ROOT

HOME = ROOT / "build" / "fleet"
ADDRESS = "127.0.0.1"
SERVER = "moto[server]>=5.2.5"


def url_at(port: int, bucket: str) -> str:
    """The address of a fleet in the bucket of the server at that port."""
    return f"s3://key:secret@{bucket}/shop?endpoint_override={ADDRESS}:{port}&scheme=http&region=us-east-1"


def server_python(packages: Sequence[str] = ()) -> Path:
    """The interpreter of the environment, with the server and ``packages``; made when missing."""
    python = HOME / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    if packages or subprocess.run([python, "-c", "import moto.server"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", SERVER, *packages], check=True)
    return python


@contextmanager
def s3_server(port: int, bucket: str, files: Path | None = None) -> Iterator[None]:
    """The server with this bucket, which has the traces of the fleet at ``files``, or nothing."""
    from pyarrow import fs

    command = [server_python(), "-m", "moto.server", "-H", ADDRESS, "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        system, root = fs.FileSystem.from_uri(f"{url_at(port, bucket)}&allow_bucket_creation=true")
        for _ in range(100):
            with suppress(OSError):
                system.create_dir(bucket)
                break
            time.sleep(0.2)
        for path in sorted(files.rglob("*.parquet")) if files else ():
            if "_fleet" not in path.parts:
                with system.open_output_stream(f"{root}/{path.relative_to(files or path)}") as stream:
                    stream.write(path.read_bytes())
        yield
    finally:
        server.terminate()
        server.wait()
