"""The machine card is read from the kernel's own words."""

from __future__ import annotations

from benchmarks import machine
from benchmarks.serving.memory import kilobytes

X86 = (
    "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2 sse avx512_vnni fma\n"
)
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU part\t: 0xd40\n"


def test_cpu_and_flags() -> None:
    assert machine.cpu_model(X86) == "AMD EPYC (family 25, model 17)"
    assert machine.isa_flags(X86) == ["avx2", "fma", "avx512_vnni"]
    assert machine.cpu_model(ARM) == "0xd40"
    assert machine.isa_flags(ARM) == ["asimd", "asimddp"]
    assert (machine.cpu_model(""), machine.isa_flags("")) == ("", [])


def test_the_card_without_the_probe() -> None:
    card = machine.machine_card(with_probe=False)
    assert card["cores"] >= 1
    assert "probe" not in card
    assert card["versions"]["numpy"]


def test_kilobytes() -> None:
    text = "Rss:     10 kB\nPss:      4 kB\nPss_Anon: 3 kB\nVmHWM:\t  20 kB\nThreads:\t7\n"
    assert kilobytes(text, {"Pss", "VmHWM", "Threads"}) == {"Pss": 4, "VmHWM": 20}
