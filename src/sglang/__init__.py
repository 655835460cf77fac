"""SGLang's serving interfaces, implemented independently. Importing is light: names resolve on first use."""

from sglang.version import __version__ as __version__
