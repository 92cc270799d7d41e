# Runs one program: reads it as JSON from standard input, writes how it ended to descriptor 3.
import ast, builtins, inspect, json, linecache, os, resource, sys, time, traceback

NAME = "<code>"


def encode(value, limit):
    try:
        text = json.dumps(value, default=repr, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = json.dumps(repr(value), ensure_ascii=False)
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return {"exit": "completed", "value": json.loads(data)}
    return {
        "exit": "output_limit",
        "value": data[:limit].decode("utf-8", "ignore"),
        "error": f"the value is {len(data)} bytes long, the limit is {limit}; return less",
    }


def run(code):
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
    if not any(part.co_flags & inspect.CO_COROUTINE for part in parts):
        value = None
        for part in parts:
            value = eval(part, names)
        return value

    async def main():
        value = None
        for part in parts:
            value = eval(part, names)
            if part.co_flags & inspect.CO_COROUTINE:
                value = await value
        return value

    import asyncio

    return asyncio.run(main())


def failure(error):
    """Prints the traceback without the frames of this file, and returns the ending."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != NAME:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace, limit=-20)
    line = "".join(traceback.format_exception_only(type(error), error)).strip()
    exit = {MemoryError: "out_of_memory", RecursionError: "stack_overflow"}.get(type(error), "exception")
    return {"exit": exit, "error": line[-2000:]}


def main():
    request = json.loads(sys.stdin.buffer.read())
    limit = request["maxOutput"]
    sys.stdout.reconfigure(line_buffering=True)  # what was printed is not lost with the process
    resource.setrlimit(resource.RLIMIT_NPROC, (64, 64))  # threads count, too
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    began = time.monotonic()
    os.write(3, b"\n")  # from now on the parent counts the time, which no program can stop
    try:
        ending = encode(run(request["code"]), limit)
    except SystemExit as error:
        if error.code in (None, 0):
            ending = {"exit": "completed"}
        else:
            ending = {"exit": "exception", "error": f"SystemExit: {error.code}"[:2000]}
    except BaseException as error:
        ending = failure(error)
    ending["durationMs"] = int((time.monotonic() - began) * 1000)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        pass
    with open(3, "w", encoding="utf-8", errors="replace") as file:
        json.dump(ending, file, ensure_ascii=False)
    os._exit(0)


main()
