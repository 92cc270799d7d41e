import load from '@jitl/quickjs-ng-wasmfile-release-sync/emscripten-module';
import { QuickJSFFI } from '@jitl/quickjs-ng-wasmfile-release-sync/ffi';
import { newQuickJSWASMModuleFromVariant, newVariant, type QuickJSContext, type QuickJSHandle } from 'quickjs-emscripten-core';
// The console, the timers and the report of the outcome: the very text that the
// server's tool uses, so that both give the same result.
import glue from '../../../../toolkit/code/glue.js?raw';
import { head, valueEnding, type Ending } from './outcome';

// A JavaScript engine of its own, as WebAssembly: a program that runs in it knows
// nothing of the browser, and its memory has a limit.

export interface Program {
  code: string;
  memoryBytes: number;
  maxOutput: number;
}

type Print = (stream: 'stdout' | 'stderr', text: string) => void;

/** Calls a function of the machine's glue; see glue.js. */
type Ask = (what: string, value?: QuickJSHandle) => unknown;

const maxStack = 256 << 10;
// JS_EVAL_FLAG_ASYNC of quickjs.h: top-level await in a script. The result is a
// promise of {value}.
const evalAsync = 1 << 7;
const maxJobs = 1 << 20;
// What the engine needs for itself: its data and its stack.
const engineBytes = 6 << 20;
// What the glue has for its report when the program has used up its memory.
const afterlife = 8 << 20;
const pageBytes = 64 << 10;
// The engine's module asks for no less.
const leastPages = 256;
const maxStackLines = 6;

const outOfMemory = 'the program used up its memory';
const tooDeep = 'the program called too deep, or nests too deep';

/** Runs one program to its end. It does not end a program that runs too long: whoever made the worker does. */
export async function runProgram(wasm: ArrayBuffer, program: Program, print: Print, begins: () => void): Promise<Ending> {
  const variant = { type: 'sync' as const, importFFI: async () => QuickJSFFI, importModuleLoader: async () => load };
  // The engine's own limit counts pieces, not their sizes, where there is no
  // malloc_usable_size; the memory's limit cannot be passed.
  const pages = Math.max(leastPages, Math.ceil((engineBytes + afterlife + program.memoryBytes) / pageBytes));
  const wasmMemory = new WebAssembly.Memory({ initial: leastPages, maximum: pages });
  // It grows in steps, and never shrinks.
  const almostAll = (leastPages + 0.6 * (pages - leastPages)) * pageBytes;
  const engine = await newQuickJSWASMModuleFromVariant(newVariant(variant, { wasmBinary: wasm, wasmMemory }));
  const runtime = engine.newRuntime();
  runtime.setMaxStackSize(maxStack);
  const machine = new Machine(runtime.newContext(), program, print, () => wasmMemory.buffer.byteLength >= almostAll);
  begins();
  return machine.run();
}

class Machine {
  readonly #ask: Ask;
  readonly #reserve: QuickJSHandle;
  readonly #began = performance.now();
  /** The program's memory was used up at some time. */
  #full = false;

  constructor(
    private readonly vm: QuickJSContext,
    private readonly program: Program,
    print: Print,
    private readonly isGrown: () => boolean,
  ) {
    this.#reserve = vm.newArrayBuffer(new ArrayBuffer(afterlife));
    const host = vm.newFunction('__print', (stream, text) => {
      print(vm.getString(stream) === 'stderr' ? 'stderr' : 'stdout', vm.getString(text));
    });
    vm.setProp(vm.global, '__print', host);
    const control = vm.unwrapResult(vm.evalCode(glue, '<glue>', 0));
    this.#ask = (what, value) => {
      const name = vm.newString(what);
      const result = value ? vm.callFunction(control, vm.undefined, name, value) : vm.callFunction(control, vm.undefined, name);
      name.dispose();
      return result.error ? undefined : vm.dump(result.value);
    };
  }

  run(): Promise<Ending> {
    return new Promise((resolve) => {
      const guarded = (step: () => Ending | number) => {
        let next: Ending | number;
        try {
          next = step();
        } catch (thrown) {
          next = this.#broken(thrown);
        }
        if (typeof next !== 'number') return resolve(next);
        setTimeout(() => guarded(() => this.#fire()), next);
      };
      guarded(() => this.#start());
    });
  }

  #start(): Ending | number {
    const result = this.vm.evalCode(this.program.code, '<code>', evalAsync);
    this.#checkRoom();
    if (result.error) return this.#threw(result.error);
    this.#ask('watch', result.value);
    return this.#settle();
  }

  #fire(): Ending | number {
    this.#ask('fire');
    return this.#settle();
  }

  // The ending, or the milliseconds until the next timer is due.
  #settle(): Ending | number {
    for (;;) {
      const jobs = this.vm.runtime.executePendingJobs(maxJobs);
      if (jobs.error) return this.#threw(jobs.error);
      if (jobs.value < maxJobs) break;
    }
    this.#checkRoom();
    const wait = this.#ask('next');
    if (this.#ask('state') === 'rejected' || typeof wait !== 'number' || wait < 0) return this.#outcome();
    return wait;
  }

  // Later there may be room again, when the engine has thrown null since it had
  // none for an error.
  #checkRoom(): void {
    this.#full ||= this.isGrown() || this.#ask('room') !== true;
  }

  #outcome(): Ending {
    this.#reserve.dispose();
    switch (this.#ask('state')) {
      case 'fulfilled': {
        const json = this.#text('value');
        return json === '' ? this.#ending('out_of_memory', outOfMemory) : valueEnding(json, this.program.maxOutput, this.#duration());
      }
      case 'rejected':
        return this.#failure(this.#text('name'), this.#text('message'), this.#text('stack'));
      case 'pending':
        if (!this.#full) return this.#ending('exception', 'the program waits for a promise that nothing will settle');
    }
    return this.#ending('out_of_memory', outOfMemory);
  }

  // A program that threw before there was a promise of it: it cannot be read.
  #threw(error: QuickJSHandle): Ending {
    const read = (name: string) => {
      const value = this.vm.getProp(error, name);
      return this.vm.typeof(value) === 'string' ? this.vm.getString(value) : '';
    };
    if (this.vm.typeof(error) !== 'object') return this.#failure('', 'it threw something that is no error', '');
    // Without memory for an error the engine throws null.
    if (this.vm.dump(error) === null) return this.#failure('', 'null', '');
    return this.#failure(read('name'), read('message'), read('stack'));
  }

  #failure(name: string, message: string, stack: string): Ending {
    const ofEngine = ['InternalError', 'RangeError', 'SyntaxError'].includes(name);
    if ((ofEngine && message === 'out of memory') || (name === '' && message === 'null' && this.#full)) {
      return this.#ending('out_of_memory', outOfMemory);
    }
    if (ofEngine && (message === 'stack overflow' || message === 'Maximum call stack size exceeded')) {
      return this.#ending('stack_overflow', tooDeep);
    }
    const { maxOutput } = this.program;
    const what = (name === '' ? '' : `${head(name, 100)}: `) + head(message, maxOutput);
    const lines = head(stack, maxOutput).trimEnd().split('\n').slice(0, maxStackLines);
    return this.#ending('exception', `${what}\n${lines.join('\n')}`.trimEnd());
  }

  // The engine itself gave up: it has nothing more to say.
  #broken(thrown: unknown): Ending {
    if (thrown instanceof RangeError) return this.#ending('stack_overflow', tooDeep);
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    return this.#ending('crashed', `its engine ended before the program did (${head(reason, 300)})`);
  }

  #text(what: string): string {
    const text = this.#ask(what);
    return typeof text === 'string' ? text : '';
  }

  #duration(): number {
    return Math.round(performance.now() - this.#began);
  }

  #ending(exit: Ending['exit'], error: string): Ending {
    return { exit, value: 'null', error, durationMs: this.#duration() };
  }
}
