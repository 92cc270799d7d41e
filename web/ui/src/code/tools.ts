import wasmUrl from '@jitl/quickjs-ng-wasmfile-release-sync/wasm?url';
import { asObject, asText } from '../base/json';
import javaScriptUrl from './javascript?worker&url';
import pythonUrl from './python?worker&url';
import { answerOf, byteLength, maxCode, type Limits } from './outcome';
import { run, type Job, type Runner } from './run';

// Runs a model's programs in this browser; loaded with the first one.

/** Runs a JavaScript program and returns the answer of the tool call. */
export function runJavaScript(args: unknown, limits: Limits, signal: AbortSignal): Promise<string> {
  return runCode(args, limits, signal, async (code): Promise<Job> => {
    const response = await fetch(wasmUrl);
    if (!response.ok) throw new Error(`the engine is not there: ${response.status}`);
    const wasm = await response.arrayBuffer();
    const { memoryBytes, maxOutput } = limits;
    return { worker: new Worker(javaScriptUrl), request: { wasm, code, memoryBytes, maxOutput }, transfer: [wasm] };
  });
}

// Python itself needs more than a program of JavaScript; what the server gives it.
const pythonBytes = 512 << 20;
// The first time all of Python comes over the network.
const pythonStartMs = 60_000;

/** Runs a Python program and returns the answer of the tool call. */
export function runPython(args: unknown, limits: Limits, signal: AbortSignal, pyodide: string): Promise<string> {
  const make = async (code: string): Promise<Job> => {
    const worker: Runner = new Worker(pythonUrl, { type: 'module' });
    const base = new URL(pyodide, document.baseURI).href;
    return { worker, request: { base, code, memoryBytes: pythonBytes, maxOutput: limits.maxOutput } };
  };
  return runCode(args, limits, signal, make, pythonStartMs);
}

async function runCode(
  args: unknown,
  limits: Limits,
  signal: AbortSignal,
  make: (code: string) => Promise<Job>,
  startMs?: number,
): Promise<string> {
  const code = asText(asObject(args).code);
  if (code === '') return 'Error: code must be the text of a program.';
  if (byteLength(code) > maxCode) return `Error: code: the program is ${byteLength(code)} bytes long, the limit is ${maxCode}.`;
  return answerOf(await run(() => make(code), limits, signal, startMs));
}
