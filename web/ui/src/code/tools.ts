import wasmUrl from '@jitl/quickjs-ng-wasmfile-release-sync/wasm?url';
import { asObject, asText } from '../base/json';
import JavaScriptWorker from './javascript?worker';
import { answerOf, byteLength, maxCode, type Limits } from './outcome';
import { run, type Job } from './run';

// Runs a model's programs in this browser; loaded with the first one.

/** Runs a JavaScript program and returns the answer of the tool call. */
export function runJavaScript(args: unknown, limits: Limits, signal: AbortSignal): Promise<string> {
  return runCode(args, limits, signal, async (code): Promise<Job> => {
    const response = await fetch(wasmUrl);
    if (!response.ok) throw new Error(`the engine is not there: ${response.status}`);
    const wasm = await response.arrayBuffer();
    const { memoryBytes, maxOutput } = limits;
    return { worker: new JavaScriptWorker(), request: { wasm, code, memoryBytes, maxOutput }, transfer: [wasm] };
  });
}

async function runCode(args: unknown, limits: Limits, signal: AbortSignal, make: (code: string) => Promise<Job>): Promise<string> {
  const code = asText(asObject(args).code);
  if (code === '') return 'Error: code must be the text of a program.';
  if (byteLength(code) > maxCode) return `Error: code: the program is ${byteLength(code)} bytes long, the limit is ${maxCode}.`;
  return answerOf(await run(() => make(code), limits, signal));
}
