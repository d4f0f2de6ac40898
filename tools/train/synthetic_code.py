"""Synthetic chats about code: write, explain and edit Python functions."""

import ast
import difflib
import io
import keyword
import random
import re
import tokenize

from tools.train.extract import docstring_functions

WRITE = (
    "Write a Python function `{name}` that does this: {doc}",
    "Implement `{name}` in Python. Its docstring says: {doc}",
    "I need a Python function called {name}.\n\n{doc}",
    "Please write {name}({arguments}): {doc}",
    "Complete this function:\n\n```python\n{signature}\n    \"\"\"{doc}\"\"\"\n```",
    "Python: {doc} Call the function {name}.",
    "Can you code this for me? Name: {name}. Task: {doc}",
)
WRITE_LEAD = ("Here is the function:\n\n", "", "", "Sure:\n\n", "One way to write it:\n\n")
EXPLAIN = (
    "What does this function do?\n\n```python\n{code}\n```",
    "Explain this code briefly.\n\n```python\n{code}\n```",
    "Summarise `{name}`:\n\n```python\n{code}\n```",
    "Write a docstring for this function.\n\n```python\n{code}\n```",
    "What are the arguments of this function, and what is it for?\n\n```python\n{code}\n```",
)
RENAME = ("Rename `{old}` to `{new}` in this code.", "Please rename {old} to {new} everywhere.",
          "Change the name `{old}` to `{new}`; keep everything else.")
DOCSTRING = ("Add this docstring to the function: {doc}", "Insert the docstring \"{doc}\".")
ARGUMENT = ("Add a parameter `{new}=None` to `{name}`.",
            "Give {name} one more argument, {new}=None.")
BUG = ("There is one bug in this function. Fix it.", "Find and fix the mistake in this code.",
       "This function gives wrong results. Correct it.")
DIFF = (" Answer with a unified diff.", " Show the change as a diff.")
FULL = ("", " Return the whole code.", " Give me the full result.")
NEW_NAMES = ("value", "result", "items", "total", "current", "entry", "buffer", "handler", "limit",
             "index", "target", "options", "payload", "record", "batch", "node", "count", "state")
SWAPS = ((" == ", " != "), (" < ", " <= "), (" + ", " - "), (" and ", " or "), (" > ", " >= "),
         ("True", "False"), (" is not None", " is None"), ("return ", "return not "))


def material_functions(documents) -> list[tuple[str, str, str]]:
    """Return (name, docstring, source) of short documented functions in the given documents."""
    found, seen = [], set()
    for document in documents:
        if document.group == "python":
            for name, doc, code in docstring_functions(document.text):
                if code not in seen and 80 < len(code) < 1800 and len(doc) < 500:
                    seen.add(code)
                    found.append((name, " ".join(doc.split()), code))
    return found


def _fence(code: str) -> str:
    return f"```python\n{code}\n```"


def _strip_docstring(code: str) -> str:
    tree = ast.parse(code)
    node = tree.body[0]
    first = node.body[0]
    if len(node.body) < 2 or not isinstance(first, ast.Expr):
        return code
    lines = code.splitlines()
    return "\n".join(lines[:first.lineno - 1] + lines[first.end_lineno:])


def _chat(question: str, answer: str) -> tuple[list[dict], dict]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}], {}


def write_function(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for a function by its docstring; the answer is the function."""
    name, doc, code = rng.choice(material.functions)
    signature = code.splitlines()[0]
    inner = re.search(r"\((.*)\)", signature)
    question = rng.choice(WRITE).format(name=name, doc=doc, signature=signature,
                                        arguments=inner[1] if inner else "")
    body = code if rng.random() < 0.5 else _strip_docstring(code)
    return _chat(question, rng.choice(WRITE_LEAD) + _fence(body))


def explain_function(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Show a function without its docstring; the answer is docstring and arguments."""
    name, doc, code = rng.choice(material.functions)
    template = rng.choice(EXPLAIN)
    arguments = [argument.arg for argument in ast.parse(code).body[0].args.args]
    answer = doc if doc.endswith(".") else doc + "."
    if "arguments" in template:
        listed = ", ".join(f"`{argument}`" for argument in arguments) or "no arguments"
        answer += f"\n\nIt takes {listed}."
    elif "docstring" in template:
        answer = f'"""{doc}"""'
    return _chat(template.format(code=_strip_docstring(code), name=name), answer)


def rename_identifier(code: str, old: str, new: str) -> str:
    """Return `code` with every NAME token `old` replaced by `new`, layout kept."""
    lines = code.splitlines(keepends=True)
    spots = [token.start for token in tokenize.generate_tokens(io.StringIO(code).readline)
             if token.type == tokenize.NAME and token.string == old]
    for row, column in reversed(spots):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + new + line[column + len(old):]
    return "".join(lines)


def _rename(rng, code, name, doc):
    names = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    names |= {argument.arg for argument in ast.parse(code).body[0].args.args}
    choices = sorted(known for known in names if len(known) > 1 and not keyword.iskeyword(known))
    if not choices:
        return None
    old, new = rng.choice(choices), rng.choice(NEW_NAMES)
    if new in names:
        return None
    return rng.choice(RENAME).format(old=old, new=new), code, rename_identifier(code, old, new)


def _docstring(rng, code, name, doc):
    bare = _strip_docstring(code)
    head = ast.parse(bare).body[0]
    lines = bare.splitlines()
    at = head.body[0].lineno - 1
    indent = " " * head.body[0].col_offset
    lines.insert(at, f'{indent}"""{doc}"""')
    return rng.choice(DOCSTRING).format(doc=doc), bare, "\n".join(lines)


def _argument(rng, code, name, doc):
    new = rng.choice(NEW_NAMES)
    match = re.match(r"def \w+\(([^()]*)\)", code)
    if match is None or new in match[1] or "*" in match[1]:
        return None
    inner = f"{match[1]}, {new}=None" if match[1].strip() else f"{new}=None"
    changed = code[:match.start(1)] + inner + code[match.end(1):]
    return rng.choice(ARGUMENT).format(new=new, name=name), code, changed


def _bug(rng, code, name, doc):
    bare = _strip_docstring(code)
    usable = [(good, bad) for good, bad in SWAPS if bare.count(good) == 1 and bad not in bare]
    if not usable:
        return None
    good, bad = rng.choice(usable)
    request = f"{rng.choice(BUG)} It should do this: {doc}"
    return request, bare.replace(good, bad), bare


def code_edit(rng: random.Random, material) -> tuple[list[dict], dict]:
    """Ask for one small edit; the answer is the whole code or a unified diff."""
    edited = None
    while edited is None:
        name, doc, code = rng.choice(material.functions)
        edited = rng.choice((_rename, _rename, _docstring, _argument, _bug))(rng, code, name, doc)
        if edited is not None and edited[1] == edited[2]:
            edited = None
    request, before, after = edited
    if rng.random() < 0.25:
        diff = "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(),
                                              "a.py", "b.py", lineterm="", n=2))
        request, answer = request + rng.choice(DIFF), f"```diff\n{diff}\n```"
    else:
        request, answer = request + rng.choice(FULL), _fence(after)
    if rng.random() < 0.5:
        return _chat(f"{request}\n\n{_fence(before)}", answer)
    return _chat(f"{_fence(before)}\n\n{request}", answer)
