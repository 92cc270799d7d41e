# Runs one program in Pyodide: what runner.py of toolkit/code does on the server, with the same outcome.
import ast, builtins, inspect, json, linecache, sys, time, traceback

NAME = "<code>"


def encode(value, limit):
    try:
        text = json.dumps(value, default=repr, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(repr(value), ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return {"exit": "completed", "value": data.decode("utf-8")}
    return {
        "exit": "output_limit",
        "value": json.dumps(data[:limit].decode("utf-8", "ignore"), ensure_ascii=False),
        "error": f"the value is {len(data)} bytes long, the limit is {limit}; return less",
    }


async def run(code):
    """Runs the program and returns the value of its last expression."""
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    tree = ast.parse(code, NAME)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    names = {"__name__": "__main__", "__builtins__": builtins}
    parts = [compile(tree, NAME, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)]
    if last is not None:
        parts.append(compile(last, NAME, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
    value = None
    for part in parts:
        value = eval(part, names)
        if part.co_flags & inspect.CO_COROUTINE:
            value = await value
    return value


def failure(error):
    """Prints the traceback without the frames of this file, and returns the ending."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace, limit=-20)
    line = "".join(traceback.format_exception_only(type(error), error)).strip()
    exit = {MemoryError: "out_of_memory", RecursionError: "stack_overflow"}.get(type(error), "exception")
    return {"exit": exit, "error": line[-2000:]}


async def main(code, limit):
    dumps, monotonic, out, err = json.dumps, time.monotonic, sys.stdout, sys.stderr
    out.reconfigure(line_buffering=True)  # what was printed is not lost with the worker
    began = monotonic()
    try:
        ending = encode(await run(code), limit)
    except SystemExit as error:
        if error.code in (None, 0):
            ending = {"exit": "completed"}
        else:
            ending = {"exit": "exception", "error": f"SystemExit: {error.code}"[:2000]}
    except BaseException as error:
        ending = failure(error)
    ending["durationMs"] = int((monotonic() - began) * 1000)
    for stream in (sys.stdout, sys.stderr, out, err):
        try:
            stream.flush()
        except Exception:
            pass
    return dumps({"value": "null", "error": "", **ending})
