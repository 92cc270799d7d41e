import { isObject, parseJson } from '../base/json';
import { lockDown } from './lockdown';
import { Output } from './outcome';
import runner from './runner.py?raw';

// The worker that runs one Python program with Pyodide. Its policy lets it load
// Pyodide and nothing else.

interface Stream {
  write: (bytes: Uint8Array) => number;
}

/** What of Pyodide is used: https://pyodide.org/en/stable/usage/api/js-api.html */
interface Pyodide {
  setStdout(stream: Stream): void;
  setStderr(stream: Stream): void;
  loadPackagesFromImports(code: string, options: object): Promise<unknown>;
  runPython(code: string): unknown;
  globals: { get(name: string): (code: string, limit: number) => Promise<string> };
}

interface Request {
  base: string;
  code: string;
  memoryBytes: number;
  maxOutput: number;
}

const post = postMessage.bind(globalThis);

onmessage = ({ data }: MessageEvent) => {
  onmessage = null;
  if (!isObject(data)) return;
  const { base, code, memoryBytes, maxOutput } = data;
  run({ base: String(base), code: String(code), memoryBytes: Number(memoryBytes), maxOutput: Number(maxOutput) }).then(
    (end) => post({ end }),
    (thrown: unknown) => post({ broken: String(thrown).slice(0, 300) }),
  );
};

async function run({ base, code, memoryBytes, maxOutput }: Request): Promise<unknown> {
  limitMemory(memoryBytes);
  const { loadPyodide } = (await import(/* @vite-ignore */ `${base}pyodide.mjs`)) as { loadPyodide: (options: object) => Promise<Pyodide> };
  const quiet = () => undefined;
  const python = await loadPyodide({ indexURL: base, packageBaseUrl: base, stdout: quiet, stderr: quiet, env: { HOME: '/home/pyodide' } });
  // Packages of the distribution that the program imports; one that is not there is
  // the program's own failure.
  await python.loadPackagesFromImports(code, { messageCallback: quiet, errorCallback: quiet }).catch(quiet);
  const output = new Output(maxOutput);
  python.setStdout(writing('stdout', output, maxOutput));
  python.setStderr(writing('stderr', output, maxOutput));
  python.runPython(runner);
  const main = python.globals.get('main');
  lockDown(globalThis);
  post({ begins: true });
  return parseJson(await main(code, maxOutput));
}

function writing(stream: 'stdout' | 'stderr', output: Output, max: number): Stream {
  const decoder = new TextDecoder();
  return {
    write(bytes) {
      const text = decoder.decode(bytes, { stream: true });
      if (!output.full && text !== '') {
        output.add(stream, text);
        // The page finds out by itself that it is too much, and ends this worker.
        post({ [stream]: text.slice(0, max + 1) });
      }
      return bytes.length;
    },
  };
}

// Pyodide's memory may grow to gigabytes; a growth that is refused is a MemoryError.
function limitMemory(bytes: number): void {
  const { prototype } = WebAssembly.Memory;
  const grow = prototype.grow;
  prototype.grow = function (this: WebAssembly.Memory, pages: number) {
    if (this.buffer.byteLength + pages * 65_536 > bytes) throw new RangeError('the memory has a limit');
    return grow.call(this, pages);
  };
}
