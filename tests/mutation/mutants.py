"""What a mutant is: one small change inside a function, found in the syntax tree, always in the same order.

Module level is left alone (constants, fields of dataclasses): it ran when the module was imported, and
coverage names no test for it. So are annotations, docstrings, texts, and messages of assertions.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq, ast.GtE, ast.LtE),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_EXTREMES = {"max": "min", "min": "max"}
_DROPPED = (ast.AugAssign, ast.Raise, ast.Continue, ast.Break)
_NO_NUMBER = (ast.Eq, ast.NotEq, ast.GtE, ast.LtE)


@dataclass(frozen=True, slots=True)
class Mutant:
    """file: from the root. function: its qualified name, the outermost one. lines: of the statement that is
    changed, or of its head. number: of this change among the file's. text: what it says, and says then."""

    file: str
    function: str
    first_line: int
    lines: tuple[int, ...]
    number: int
    text: str

    @property
    def name(self) -> str:
        """The same as long as the function is not edited, wherever it stands in its file."""
        return f"{self.file} {self.function}: {self.text}"


def mutants_of(file: str, source: str) -> list[Mutant]:
    tree = ast.parse(source)
    made: list[Mutant] = []
    seen: dict[str, int] = {}
    for number, (function, name, statement, site) in enumerate(_sites(tree)):
        head = site.node if isinstance(site.node, ast.expr | ast.stmt) else statement
        text = f"{_said(site.node)} -> {_said(site.changed)}"
        if isinstance(site.node, ast.Constant):
            text += f" in {_said(statement)}"
        key = f"{name}: {text}"
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            text = f"{text} ({seen[key]})"
        first = min((d.lineno for d in function.decorator_list), default=function.lineno)
        lines = tuple(range(statement.lineno, max(statement.lineno, head.end_lineno or 0) + 1))
        made.append(Mutant(file, name, first, lines, number, text))
    return made


def mutated_code(source: str, mutant: Mutant, *, path: Path) -> CodeType:
    """Compile the changed module and return the code of the outermost function with the change in it."""
    tree = ast.parse(source)
    for number, (_, _, _, site) in enumerate(_sites(tree)):
        if number == mutant.number:
            site.put()
            break
    module = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
    return next(
        code
        for code in _codes(module)
        if (code.co_qualname, code.co_firstlineno) == (mutant.function, mutant.first_line)
    )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@dataclass(frozen=True, slots=True)
class _Site:
    """node: what is there. changed: what comes in its place. put: puts it there."""

    node: ast.AST
    changed: ast.AST
    put: Callable[[], None]


def _sites(tree: ast.Module) -> Iterator[tuple[Function, str, ast.stmt, _Site]]:
    """(function, its qualified name, statement, change) in the order of the file."""
    for function, name in functions(tree.body):
        for block in _blocks(function.body):
            for index, statement in enumerate(block):
                for site in _of_statement(block, index):
                    yield function, name, statement, site


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[Function, str]]:
    """Return the outermost functions of a module, or of a class in it, each with its qualified name."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")


def _blocks(body: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield body
    for statement in body:
        for part in ("body", "orelse", "finalbody"):
            inner = getattr(statement, part, None)
            if inner:
                yield from _blocks(inner)
        for holder in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _blocks(holder.body)


def _of_statement(block: list[ast.stmt], index: int) -> Iterator[_Site]:
    statement = block[index]

    def instead(other: ast.stmt) -> _Site:
        placed = ast.copy_location(other, statement)

        def put() -> None:
            block[index] = placed

        return _Site(statement, placed, put)

    if isinstance(statement, _DROPPED) or _is_effect(statement):
        yield instead(ast.Pass())
    if isinstance(statement, ast.Return) and not isinstance(statement.value, ast.Constant | None):
        yield instead(ast.Return(ast.Constant(None)))
    for field, value in ast.iter_fields(statement):
        if field in ("body", "orelse", "finalbody", "handlers", "cases", "annotation", "msg", "targets"):
            continue
        yield from _of_value(statement, field, value, is_condition=field == "test")


def _is_effect(statement: ast.stmt) -> bool:
    """A call whose value nobody takes, or a value that is put into an object."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call | ast.Await)
    return isinstance(statement, ast.Assign) and isinstance(
        statement.targets[0], ast.Attribute | ast.Subscript
    )


def _of_value(parent: ast.AST, field: str, value: object, *, is_condition: bool = False) -> Iterator[_Site]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            if isinstance(each, ast.AST):
                yield from _of_node(each, _putter_in(value, index))
    elif isinstance(value, ast.AST):
        yield from _of_node(value, _putter_at(parent, field), is_condition=is_condition)


def _putter_in(values: list[ast.AST], index: int) -> Callable[[ast.AST], None]:
    def put(node: ast.AST) -> None:
        values[index] = node

    return put


def _putter_at(parent: ast.AST, field: str) -> Callable[[ast.AST], None]:
    def put(node: ast.AST) -> None:
        setattr(parent, field, node)

    return put


def _of_node(node: ast.AST, put: Callable[[ast.AST], None], *, is_condition: bool = False) -> Iterator[_Site]:
    if isinstance(node, ast.JoinedStr | ast.Lambda) and not isinstance(node, ast.Lambda):
        return  # a text
    for changed in _changes(node, is_condition=is_condition):
        located = ast.copy_location(changed, node)
        yield _Site(node, located, lambda located=located: put(located))  # type: ignore[misc]
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns", "op", "ops", "ctx"):
            yield from _of_value(node, field, value, is_condition=field in ("test", "ifs"))


def _changes(node: ast.AST, *, is_condition: bool) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left, ops, comparators):
            for index, op in enumerate(ops):
                for other in _COMPARED[type(op)]:
                    if other in _NO_NUMBER[2:] and isinstance(op, ast.Eq) and _is_text(comparators[index]):
                        continue
                    yield ast.Compare(left, [*ops[:index], other(), *ops[index + 1 :]], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for index in range(len(values)):
                rest = [*values[:index], *values[index + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _COMPUTED:
            yield ast.BinOp(left, _COMPUTED[type(op)](), right)
        case ast.Call(ast.Name(name), args, keywords) if name in _EXTREMES and args:
            yield ast.Call(ast.Name(_EXTREMES[name], ast.Load()), args, keywords)
            if len(args) > 1 and not keywords:
                yield from (copy.deepcopy(each) for each in args if not isinstance(each, ast.Starred))
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Name() | ast.Attribute() | ast.Call() if is_condition:
            yield ast.UnaryOp(ast.Not(), node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _said(node: ast.AST) -> str:
    text = ast.unparse(node).split("\n")[0]
    return text if len(text) <= 100 else f"{text[:97]}..."
