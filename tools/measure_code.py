"""Print what can be counted of how easy the code is to move into: rooms, factories, functions, comments, docstrings.

    python tools/measure_code.py [--large] [TREE ...]

Several trees stand side by side. TREE is a clone; without one it is this. ``--large`` lists files, functions and
argument lists that are larger than most readers can survey; that is guidance, not a rule.
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

BRANCHES = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler, ast.comprehension)
RIDDLES = ("The same", "Of ", "Likewise", "As ")
FILE_LINES, FUNCTION_LINES, PARAMETERS = 600, 120, 12
"""Sizes above which ``--large`` lists something; a function's lines are all of them, with those of functions in it."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """All functions of a file, nested ones too."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def is_factory(node: ast.stmt) -> bool:
    """Return True for a cached function that defines others."""
    if not isinstance(node, ast.FunctionDef) or not any("cache" in ast.dump(d) for d in node.decorator_list):
        return False
    return any(isinstance(inner, (ast.FunctionDef, ast.ClassDef)) for inner in ast.walk(node) if inner is not node)


def rebound(factory: ast.FunctionDef) -> int:
    """How many names a factory binds before its functions begin."""
    targets = [target for node in factory.body if isinstance(node, ast.Assign) for target in node.targets]
    return sum(len(target.elts) if isinstance(target, ast.Tuple) else 1 for target in targets)


def own_lines(function: ast.FunctionDef) -> int:
    """Lines of a function without those of functions within it."""
    inner = [node for node in function.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return (function.end_lineno or 0) - function.lineno + 1 - sum((n.end_lineno or 0) - n.lineno + 1 for n in inner)


def branches(function: ast.FunctionDef) -> int:
    """Cyclomatic complexity of a function without functions within it."""
    count, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        count += isinstance(node, BRANCHES) + (len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0)
        waiting.extend(ast.iter_child_nodes(node))
    return count


def comments(text: str) -> int:
    """How many comments a file has."""
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline))


def docstrings(tree: ast.Module) -> list[str]:
    """All docstrings of a file."""
    nodes = [tree, *(n for n in ast.walk(tree) if isinstance(n, (ast.ClassDef, ast.FunctionDef)))]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def measure(root: Path) -> dict[str, str]:
    """The table of one package."""
    texts = {path: path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    rooms = Counter(path.parent for path in texts if path.name != "__init__.py")
    largest, most = rooms.most_common(1)[0]
    everything = [function for tree in trees.values() for function in functions(tree)]
    lengths = sorted(map(own_lines, everything))
    factories = [node for tree in trees.values() for node in tree.body if is_factory(node)]
    texts_of_docs = [doc for tree in trees.values() for doc in docstrings(tree)]
    lines = sum(len(text.splitlines()) for text in texts.values())
    newton = {f.name: branches(f) for f in everything if f.name in ("solve_world", "minimize", "take_step")}
    most_branched = max(everything, key=branches)
    entries = {path.relative_to(root).parts[0] for path in texts} - {"__init__.py"}
    return {
        "files": str(len(texts)),
        "lines": f"{lines:,}",
        "entries at the top": str(len(entries)),
        "folders": str(len(rooms)),
        "files per folder, median / largest": f"{statistics.median(rooms.values()):g} / {most} ({largest.name})",
        "cached factories": str(len(factories)),
        "names that they rebind": str(sum(map(rebound, factories))),  # type: ignore[arg-type]
        "lines per function, median / p90 / max": " / ".join(
            str(lengths[int(p * (len(lengths) - 1))]) for p in (0.5, 0.9, 1)
        ),
        "most branches": f"{branches(most_branched)} ({most_branched.name})",
        "branches of the Newton loop": ", ".join(f"{name} {count}" for name, count in newton.items()),
        "comments per 100 lines": f"{100 * sum(map(comments, texts.values())) / lines:.1f}",
        "docstrings that begin with The same, Of, ...": str(sum(doc.startswith(RIDDLES) for doc in texts_of_docs)),
    }


def large(root: Path) -> Iterator[str]:
    """Yield a line for each file, function and argument list beyond the sizes above."""
    for path in sorted(root.rglob("*.py")):
        text, name = path.read_text("utf-8"), path.relative_to(root).as_posix()
        if (lines := len(text.splitlines())) > FILE_LINES:
            yield f"{name}: {lines} lines"
        for function in functions(ast.parse(text)):
            where = f"{name}:{function.lineno}: {function.name}"
            if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES:
                yield f"{where} has {lines} lines"
            arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
            if (count := sum(argument.arg not in ("self", "cls") for argument in arguments)) > PARAMETERS:
                yield f"{where} has {count} parameters"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("tree", nargs="*", type=Path, default=[here], help="clones to measure")
    parser.add_argument("--large", action="store_true", help="list what is larger than most readers can survey")
    arguments = parser.parse_args()
    if arguments.large:
        print("\n".join(line for tree in arguments.tree for line in large(tree / "sap_warp")) or "nothing is large")
        return
    tables = [measure(tree / "sap_warp") for tree in arguments.tree]
    for name in tables[0]:
        print(f"| {name} | " + " | ".join(table[name] for table in tables) + " |")


if __name__ == "__main__":
    main()
