"""An arm64 machine on x86-64: Debian's kernel and CPython 3.13 in qemu's full emulation.

Its kernel is a real one: signals, perf events, process_vm_readv and LD_PRELOAD work as on any arm64 host. A core of it does
about a tenth of the work of one here. Nothing is installed on the host; what is downloaded (120 MB) stays under ``build/``.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.unpacked_python import KEYRING, apt_options, mirror

FOLDER = ROOT / "build" / "arm64"
SUITE = "trixie"
PYTHON = "/usr/bin/python3.13"
COMPILER = "aarch64-linux-gnu-gcc"
#: Command: the Debian package that has it.
TOOLS = {
    "qemu-system-aarch64": "qemu-system-arm",
    "cpio": "cpio",
    COMPILER: "gcc-aarch64-linux-gnu and libc6-dev-arm64-cross",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
PACKAGES = (
    *("busybox-static", "libc6", "python3.13", "python3.13-minimal", "libpython3.13-minimal", "libpython3.13-stdlib"),
    *(
        "libexpat1",
        "zlib1g",
        "libffi8",
        "libssl3t64",
        "libbz2-1.0",
        "liblzma5",
        "libsqlite3-0",
        "libcrypt1",
        "libuuid1",
    ),
    *("libzstd1", "libgcc-s1", "libstdc++6", "libtinfo6", "libncursesw6", "libreadline8t64"),
)
#: The package of the kernel, by KiB of its pages.
KERNELS = {4: "linux-image-arm64", 16: "linux-image-arm64-16k"}
#: Debian has no kernel with pages of 64 KiB; this one is Ubuntu's. Its packages by their SHA-256.
UBUNTU = "http://archive.ubuntu.com/ubuntu/pool/main/l/linux/"
UBUNTU_PACKAGES = {
    "linux-image-unsigned-7.0.0-14-generic-64k_7.0.0-14.14_arm64.deb": "67c5170a8f830ad5f1f048dc38f0cc0db9884170ab0518aebb2bffdb3ede9b9a",
    "linux-modules-7.0.0-14-generic-64k_7.0.0-14.14_arm64.deb": "b91c1f1ca1b1084a0ead0c4a604f25a653265854b5877634de1d1b5184aa916d",
}
PAGES = (*KERNELS, 64)
#: Memory of the machine in MiB: a unit test touches 24,000 pages.
MEMORY = {4: 3072, 16: 3072, 64: 6144}
#: Modules of the kernel with which a folder of the host is mounted, each after those that it needs.
MODULES = ("fs/netfs/netfs", "net/9p/9pnet", "net/9p/9pnet_virtio", "fs/9p/9p")
#: The wheels of the packages that scalene-trace needs, for the machine's interpreter.
PIP = (
    *(word for age in ("_2_28", "_2_27", "_2_17", "2014") for word in ("--platform", f"manylinux{age}_aarch64")),
    *("--python-version", "3.13", "--only-binary", ":all:", "--no-compile", "-q", "--disable-pip-version-check"),
)
#: The kernel's own pointers are signed by a cheap cipher: emulating the architecture's would take half of all time.
PROCESSOR = "max,pauth-impdef=on"
INIT = f"""#!/usr/bin/busybox sh
b=/usr/bin/busybox
$b mkdir -p /proc /sys /dev /tmp /host /usr/local/bin
$b mount -t proc p /proc; $b mount -t sysfs s /sys; $b mount -t devtmpfs d /dev
$b mkdir -p /dev/shm /dev/pts; $b mount -t tmpfs t /dev/shm; $b mount -t devpts p /dev/pts
$b --install -s /usr/local/bin; $b ln -s /usr/local/bin/sh /usr/local/bin/true /bin/
export PATH=/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONPATH=/host/site
for module in {" ".join(Path(each).name for each in MODULES)}; do insmod /modules/$module.ko; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose host /host
date -s @$(cat /host/now) >/dev/null
cd /tmp; sh /host/command.sh >/host/output 2>&1; echo $? >/host/status
sync; umount /host; $b poweroff -f
"""


def has_libc(compiler: str) -> bool:
    """Debian's compiler comes without one if recommended packages are left out."""
    return (
        subprocess.run([compiler, "-E", "-x", "c", "-"], input=b"#include <elf.h>\n", capture_output=True).returncode
        == 0
    )


def missing() -> str | None:
    """Why there can be no such machine; None if there can."""
    if os.uname().machine != "x86_64":
        return "the machine is emulated on x86-64 only"
    absent = [package for command, package in TOOLS.items() if not shutil.which(command)]
    if absent:
        return f"Debian packages are missing: {', '.join(absent)}"
    return None if mirror() and KEYRING.exists() else "no Debian package source is set up here"


def make_machine(pages_kib: int = 4) -> None:
    """Downloads and unpacks the machine with such a kernel, unless it is there. Raises CalledProcessError."""
    folder = _folder(pages_kib)
    if (folder / "initrd").exists():
        return
    root, kernel = folder / "root", folder / "kernel"
    for each in (root, kernel, folder / "apt"):
        shutil.rmtree(each, ignore_errors=True)
    _unpack(folder, KERNELS.get(pages_kib))
    for each in ("bin", "sbin", "lib", "lib64"):
        if not (root / each).exists():
            (root / each).symlink_to(f"usr/{each}")
    (root / "modules").mkdir()
    (modules,) = kernel.glob("usr/lib/modules/*/kernel")
    for each in MODULES:
        (root / "modules" / f"{Path(each).name}.ko").write_bytes(_module(modules / f"{each}.ko"))
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (image,) = kernel.glob("boot/vmlinuz-*")
    (folder / "vmlinuz").write_bytes(_kernel(image.read_bytes()))
    names = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
    with (folder / "initrd.new").open("wb") as file:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=file, check=True)
    shutil.rmtree(root)
    shutil.rmtree(kernel)
    (folder / "initrd.new").rename(folder / "initrd")


def _module(path: Path) -> bytes:
    """The module that is stored under this name with the ending of its compression."""
    if (packed := path.with_name(f"{path.name}.xz")).exists():
        return lzma.decompress(packed.read_bytes())
    return _unzstd(path.with_name(f"{path.name}.zst").read_bytes())


def _kernel(image: bytes) -> bytes:
    """The kernel for qemu, which does not unpack programs of EFI that are compressed by zstd (drivers/firmware/efi/libstub/
    zboot.lds has their header)."""
    if image[4:8] != b"zimg" or image[24:28] != b"zstd":
        return image
    start, size = struct.unpack_from("<II", image, 8)
    return _unzstd(image[start : start + size])


def _unzstd(packed: bytes) -> bytes:
    """Of a kernel, the last bytes (its size) belong to no frame; zstd has then written all of it, and complains."""
    return subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True).stdout


def _folder(pages_kib: int) -> Path:
    return FOLDER / f"{pages_kib}k"


def _unpack(folder: Path, kernel: str | None) -> None:
    """Unpacks Debian's packages into ``folder``: the system into root, the kernel of this package (None: Ubuntu's) into
    kernel."""
    apt = folder / "apt"
    options = apt_options(apt, str(mirror()), SUITE, "arm64")
    _run("apt-get", *options, "update")
    images = []
    if kernel:
        depends = _run("apt-cache", *options, "depends", kernel)
        images = re.findall(r"Depends: (linux-image-\S+)", depends)[:1]
    else:
        _download_ubuntus(apt / "debs")
    _run("apt-get", *options, "download", *images, *PACKAGES, cwd=apt / "debs")
    for package in sorted((apt / "debs").glob("*.deb")):
        _run("dpkg-deb", "-x", package, folder / ("kernel" if package.name.startswith("linux-") else "root"))
    shutil.rmtree(apt)


def _download_ubuntus(folder: Path) -> None:
    """Downloads the packages of Ubuntu's kernel (300 MB). Raises ValueError if one is not what it was."""
    for name, digest in UBUNTU_PACKAGES.items():
        with urllib.request.urlopen(UBUNTU + name) as answer, (folder / name).open("wb") as file:
            shutil.copyfileobj(answer, file)
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise ValueError(f"{UBUNTU}{name} is not the package that was tested")


def install(site: Path, *packages: str | Path) -> None:
    """Installs wheels for the machine's interpreter, with what they need, into a folder of the host. Raises CalledProcessError."""
    _run(sys.executable, "-m", "pip", "install", *PIP, "--target", site, *packages)


def run_machine(share: Path, command: str, limit_s: float, pages_kib: int = 4) -> tuple[int, str]:
    """Boots the machine with such a kernel (10 s), runs a shell command in it and returns its exit status with what it printed.

    The folder ``share`` of the host is ``/host`` there; ``share/site`` has the Python packages. Raises TimeoutExpired.
    """
    (share / "command.sh").write_text(command)
    (share / "now").write_text(f"{time.time():.0f}")  # not every kernel has a driver for the machine's clock
    for each in ("output", "status"):
        (share / each).unlink(missing_ok=True)
    qemu = ["qemu-system-aarch64", "-M", "virt", "-cpu", PROCESSOR, "-smp", "2", "-nic", "none"]
    folder = _folder(pages_kib)
    qemu += ["-m", str(MEMORY[pages_kib])]
    qemu += ["-kernel", str(folder / "vmlinuz"), "-initrd", str(folder / "initrd"), "-no-reboot", "-nographic"]
    qemu += ["-append", "rdinit=/init console=ttyAMA0 quiet"]
    qemu += ["-virtfs", f"local,path={share},mount_tag=host,security_model=none"]
    done = subprocess.run(qemu, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s)
    output = (
        (share / "output").read_text(errors="replace") if (share / "output").exists() else done.stdout + done.stderr
    )
    status = (share / "status").read_text().strip() if (share / "status").exists() else ""
    return int(status or 255), output


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=True).stdout
