import { isObject } from '../base/json';
import { lockDown } from './lockdown';
import { runProgram } from './machine';
import { Output } from './outcome';

// The worker that runs one JavaScript program. The policy that its script is
// served with lets it reach nothing.

const post = postMessage.bind(globalThis);

onmessage = ({ data }: MessageEvent) => {
  if (!isObject(data) || !(data.wasm instanceof ArrayBuffer)) return;
  onmessage = null;
  lockDown(globalThis);
  const maxOutput = Number(data.maxOutput);
  const program = { code: String(data.code), memoryBytes: Number(data.memoryBytes), maxOutput };
  // What is too much is cut here: the page is not to be flooded.
  const output = new Output(maxOutput);
  const print = (stream: 'stdout' | 'stderr', text: string) => {
    if (output.full) return;
    const before = output[stream].length;
    output.add(stream, text);
    post({ [stream]: output.full ? text.slice(0, maxOutput + 1) : output[stream].slice(before) });
  };
  runProgram(data.wasm, program, print, () => post({ begins: true })).then(
    (end) => post({ end }),
    (thrown: unknown) => post({ broken: String(thrown).slice(0, 300) }),
  );
};
