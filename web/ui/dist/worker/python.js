(function(){function e(e){return typeof e==`object`&&!!e&&!Array.isArray(e)}function t(e){try{return JSON.parse(e)}catch{return}}let n=/* @__PURE__ */ `fetch.fetchLater.XMLHttpRequest.WebSocket.WebSocketStream.WebTransport.EventSource.RTCPeerConnection.RTCDataChannel.Request.Response.FontFace.fonts.Notification.NotificationEvent.PushManager.importScripts.Worker.SharedWorker.ServiceWorker.ServiceWorkerContainer.ServiceWorkerRegistration.indexedDB.IDBFactory.caches.Cache.CacheStorage.cookieStore.CookieStore.StorageManager.StorageBucketManager.FileSystemHandle.FileSystemFileHandle.FileSystemDirectoryHandle.FileSystemSyncAccessHandle.webkitRequestFileSystem.webkitRequestFileSystemSync.webkitResolveLocalFileSystemURL.webkitResolveLocalFileSystemSyncURL.BroadcastChannel.LockManager.Lock.SharedStorage.USB.HID.Serial.GPU.Permissions.navigator.WorkerNavigator.postMessage.close.onmessage.onmessageerror.onrtctransform`.split(`.`);function r(e){for(let t=e;t!==null&&t!==Object.prototype;t=Object.getPrototypeOf(t))for(let e of n)Object.hasOwn(t,e)&&(Reflect.deleteProperty(t,e)||Reflect.defineProperty(t,e,{value:void 0,writable:!1,configurable:!1}))}let i=new TextEncoder;function a(e){return i.encode(e).length}function o(e,t){if(e.length*3<=t)return e;let{read:n}=i.encodeInto(e,new Uint8Array(t));return e.slice(0,n)}var s=class{max;stdout=``;stderr=``;full=!1;#e=0;constructor(e){this.max=e}add(e,t){if(this.full)return!1;let n=this.max-this.#e,r=t.length>n?t.length:a(t);return this.full=r>n,this[e]+=this.full?`${o(t,n)}\n[cut: the limit is ${this.max} bytes]`:t,this.#e+=r,!this.full}limitError(){return`the program printed more than ${this.max} bytes and was stopped; print less`}},c=`# Runs one program in Pyodide: what runner.py of toolkit/code does on the server, with the same outcome.
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
`;let l=postMessage.bind(globalThis);onmessage=({data:t})=>{if(onmessage=null,!e(t))return;let{base:n,code:r,memoryBytes:i,maxOutput:a}=t;u({base:String(n),code:String(r),memoryBytes:Number(i),maxOutput:Number(a)}).then(e=>l({end:e}),e=>l({broken:String(e).slice(0,300)}))};async function u({base:e,code:n,memoryBytes:i,maxOutput:a}){f(i);let{loadPyodide:o}=await import(
/* @vite-ignore */
`${e}pyodide.mjs`),u=()=>void 0,p=await o({indexURL:e,packageBaseUrl:e,stdout:u,stderr:u,env:{HOME:`/home/pyodide`}});await p.loadPackagesFromImports(n,{messageCallback:u,errorCallback:u}).catch(u);let m=new s(a);p.setStdout(d(`stdout`,m,a)),p.setStderr(d(`stderr`,m,a)),p.runPython(c);let h=p.globals.get(`main`);return r(globalThis),l({begins:!0}),t(await h(n,a))}function d(e,t,n){let r=new TextDecoder;return{write(i){let a=r.decode(i,{stream:!0});return!t.full&&a!==``&&(t.add(e,a),l({[e]:a.slice(0,n+1)})),i.length}}}function f(e){let{prototype:t}=WebAssembly.Memory,n=t.grow;t.grow=function(t){if(this.buffer.byteLength+t*65536>e)throw RangeError(`the memory has a limit`);return n.call(this,t)}}})();