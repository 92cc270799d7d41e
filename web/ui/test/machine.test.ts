import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../src/code/machine';

const file = readFileSync('node_modules/@jitl/quickjs-ng-wasmfile-release-sync/dist/emscripten-module.wasm');
const wasm = () => file.buffer.slice(file.byteOffset, file.byteOffset + file.byteLength) as ArrayBuffer;

async function go(code: string, limits = { memoryBytes: 64 << 20, maxOutput: 1000 }) {
  const out = { stdout: '', stderr: '' };
  const end = await runProgram(wasm(), { code, ...limits }, (stream, text) => (out[stream] += text), () => {});
  return { ...out, ...end };
}

describe('a program', () => {
  it.each([
    ['1 + 1', '2'],
    ['const a = await Promise.resolve([1, { b: "é" }]); a', '[1,{"b":"é"}]'],
    ['await new Promise((done) => setTimeout(done, 5)); "later"', '"later"'],
    ['(async () => 7)()', '7'],
    ['let n = 0; const id = setInterval(() => { if (++n === 3) clearInterval(id) }, 1); n', '0'],
    ['let x = 1', 'null'],
    ['10n ** 20n', '"100000000000000000000"'],
    ['new Map([[1, 2]])', '"Map(1) { 1 => 2 }"'],
    ['0.1 + 0.2', '0.30000000000000004'],
    ['[typeof fetch, typeof self, typeof window, typeof process, typeof require, typeof importScripts, typeof WebAssembly].join()', '"undefined,undefined,undefined,undefined,undefined,undefined,undefined"'],
  ])('%s gives %s', async (code, value) => {
    expect(await go(code)).toMatchObject({ exit: 'completed', value, error: '' });
  });

  it('prints as on the server', async () => {
    const { stdout, stderr } = await go('console.log("a", { b: [1, "x"] }, new Error("e").message); console.error("bad"); setTimeout(() => console.log("late"), 2)');
    expect([stdout, stderr]).toEqual(['a { b: [ 1, "x" ] } e\nlate\n', 'bad\n']);
  });
});

describe('a failure', () => {
  it.each([
    ['throw new TypeError("no")', 'exception', /^TypeError: no\n +at /],
    ['1 +', 'exception', /^SyntaxError: /],
    ['await Promise.reject("words")', 'exception', /^words/],
    ['null.x', 'exception', /^TypeError: /],
    ['await new Promise(() => {})', 'exception', /nothing will settle/],
    ['setTimeout(() => { throw new Error("in a timer") }, 1)', 'exception', /^Error: in a timer/],
    ['import("fs")', 'exception', /./],
    ['for (const a = [];;) a.push(new Array(1000).fill(1))', 'out_of_memory', /memory/],
    ['const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))', 'out_of_memory', /memory/],
    ['for (const a = [];;) a.push({})', 'out_of_memory', /memory/],
    ['for (const a = [];;) a.push("x".repeat(1000) + a.length)', 'out_of_memory', /memory/],
    ['"x".repeat(1 << 29)', 'out_of_memory', /memory/],
    ['for (;;) queueMicrotask(() => {})', 'out_of_memory', /memory/],
    ['function f() { f() } f()', 'stack_overflow', /too deep/],
    ['const f = () => [1].map(f); f()', 'stack_overflow', /too deep/],
    ['JSON.parse("[".repeat(1e6))', 'stack_overflow', /too deep/],
    ['"x".repeat(2000)', 'output_limit', /the value is 2002 bytes long, the limit is 1000/],
  ] as const)('%s is an %s', async (code, exit, error) => {
    const end = await go(code, { memoryBytes: 16 << 20, maxOutput: 1000 });
    expect(end.exit).toBe(exit);
    expect(end.error).toMatch(error);
  });

  it('cannot be talked away', async () => {
    const end = await go(`
      Promise.prototype.then = () => {}; JSON.stringify = () => '"forged"'; Error.prototype.name = 5;
      Object.prototype.toJSON = () => 1; globalThis.setTimeout = null; Array.prototype.join = null;
      throw new RangeError('real')`);
    expect(end).toMatchObject({ exit: 'exception', value: 'null' });
    expect(end.error).toMatch(/real/);
  });
});
