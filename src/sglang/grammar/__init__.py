"""Structured output: grammars that say which tokens may come next.

``spec`` (what a request asks for, checked) → ``compiler`` (background threads, a cache, a probe process that takes the
blow of hostile grammars) → ``state`` (one request's matcher and its mask). No torch here.
"""
