"""Runs templates that nobody has vetted: the one place that constructs a Jinja environment.

Templates come with models, GGUF headers and (where allowed) requests. Jinja's immutable sandbox keeps them from code
and from changing their inputs. On top of that a render has a budget of time, steps and characters, and every operation
that can make much out of little is checked before it runs. Where operators are intercepted and filters need the
context, Jinja does not fold constants, so the limits hold while compiling, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from sglang.text import template_limits as limits
from sglang.text.template_limits import Budget, TemplateLimitError

BUDGET = "budget of this render"
"""Where the context keeps the budget: no template can spell a name with spaces."""
_LOOP, _CONCAT, _SLICE, _COMPARE = "guard loop", "guard concat", "guard slice", "guard compare"
UNCHECKED_LOOP = 1000
"""Items of a loop that are charged in one go."""


def budget_of(context: Context) -> Budget:
    budget = context.parent[BUDGET]
    assert isinstance(budget, Budget)
    return budget


class _GenerationBlock(Extension):
    """``{% generation %}`` marks the assistant's words for training; here its body is rendered as it is."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Guards(NodeTransformer):
    """Routes loops, concatenations, slices and comparisons through filters that charge the budget."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _LOOP)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), _CONCAT)

    def visit_Operand(self, node: nodes.Operand) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.expr, nodes.Const):
            node.expr = _filtered(node.expr, _COMPARE)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(node, _SLICE) if isinstance(node.arg, nodes.Slice) else node


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None, lineno=node.lineno)


class SandboxEnvironment(ImmutableSandboxedEnvironment):
    """Jinja as chat templates expect it, with the guards of this module."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})
    concat = staticmethod(limits.bounded_join)  # joins what {% set %} blocks and macros captured

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationBlock], finalize=_finalize
        )
        self.filters["tojson"] = limits.tojson
        self.filters = {name: _guarded(name, function) for name, function in self.filters.items()}
        self.filters |= {_LOOP: _charge_loop, _CONCAT: _charge_concat, _SLICE: _charge_slice, _COMPARE: _weigh_operand}
        del self.globals["lipsum"]

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = budget_of(context)
        limits.check_operator(operator, left, right, budget)
        return budget.charged(super().call_binop(context, operator, left, right))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def run(*args: Any, **kwargs: Any) -> str:
            limits.check_format(value.__self__, args, kwargs)
            return wrapped(*args, **kwargs)

        return run

    # The parameter names keep clear of the keyword arguments of the function called.
    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(__context)
        budget.tick()
        args = limits.check_method(__obj, args, kwargs, budget)
        return budget.charged(super().call(__context, __obj, *args, **kwargs))


class SandboxedTemplate:
    """A compiled template. Raises :class:`jinja2.TemplateError` or :class:`TemplateLimitError` from both methods."""

    def __init__(self, source: str, functions: Mapping[str, Callable[..., Any]]) -> None:
        if len(source) > limits.MAX_SOURCE:
            raise TemplateLimitError(
                f"the template has {len(source)} characters, at most {limits.MAX_SOURCE} are allowed"
            )
        environment = SandboxEnvironment()
        self.tree = environment.parse(source)
        code = environment.compile(_Guards().visit(environment.parse(source)))
        self._template = jinja2.Template.from_code(environment, code, dict(environment.globals) | dict(functions))

    def render(self, variables: Mapping[str, Any]) -> str:
        budget = Budget()
        context = self._template.new_context({**variables, BUDGET: budget})
        parts, size = [], 0
        for part in self._template.root_render_func(context):
            size += len(part)
            if size > limits.MAX_TEXT:
                raise TemplateLimitError(f"it writes more than {limits.MAX_TEXT} characters")
            budget.check_time()
            parts.append(part)
        return "".join(parts)


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        budget_of(context).weigh(value)
    return value


@pass_context
def _weigh_operand(context: Context, value: Any) -> Any:
    """The right side of a comparison; the left side can't be walked deeper than this one."""
    if isinstance(value, (list, tuple, dict)):
        budget_of(context).weigh(value, texts=False)
    return value


@pass_context
def _charge_loop(context: Context, items: Any) -> Any:
    budget = budget_of(context)
    try:
        size = len(items)
    except TypeError:
        return _ticking(items, budget)
    if size > UNCHECKED_LOOP:
        return _ticking(items, budget)
    budget.tick(size + 1)
    return items


def _ticking(items: Iterable[Any], budget: Budget) -> Iterator[Any]:
    for item in items:
        budget.tick()
        yield item


@pass_context
def _charge_concat(context: Context, items: list[Any]) -> str:
    budget = budget_of(context)
    for item in items:
        if not isinstance(item, str):
            budget.weigh(item)
    budget.charge(sum(len(item) for item in items if isinstance(item, str)))
    return "".join(map(str, items))


@pass_context
def _charge_slice(context: Context, value: Any) -> Any:
    return budget_of(context).charged(value)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, with its arguments checked before and its result charged after."""
    wanted = getattr(function, "jinja_pass_arg", None)
    kind = wanted.name if wanted is not None else None

    @pass_context
    def run(context: Context, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        budget = budget_of(context)
        budget.tick()
        value = limits.check_filter(name, value, args, kwargs, budget)
        match kind:
            case None:
                result = function(value, *args, **kwargs)
            case "context":
                result = function(context, value, *args, **kwargs)
            case "eval_context":
                result = function(context.eval_ctx, value, *args, **kwargs)
            case _:
                result = function(context.environment, value, *args, **kwargs)
        return budget.charged(result)

    return run
