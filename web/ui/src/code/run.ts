import { isObject } from '../base/json';
import { Output, readEnding, type Ending, type Limits, type Outcome } from './outcome';

/** What of a Worker is used. */
export interface Runner {
  postMessage(message: unknown, transfer?: Transferable[]): void;
  terminate(): void;
  onmessage: ((event: MessageEvent) => void) | null;
  onerror: ((event: ErrorEvent) => void) | null;
  onmessageerror: ((event: MessageEvent) => void) | null;
}

/** A worker that is made for one program, and what it is told. */
export interface Job {
  worker: Runner;
  request: object;
  transfer?: Transferable[];
}

/** How long a worker may take until its program begins. */
export const startLimitMs = 20_000;

/**
 * Runs a program in a worker that is made for it and ended with it. The worker is
 * not trusted: whatever it says is checked, and what it says too much ends it.
 */
export async function run(make: () => Promise<Job>, limits: Limits, signal: AbortSignal, startMs = startLimitMs): Promise<Outcome> {
  let job: Job;
  try {
    job = await make();
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    return { stdout: '', stderr: '', ...failed('crashed', `its worker could not be started (${reason})`, 0) };
  }
  return new Promise((resolve) => new Watch(job, limits, signal, startMs, resolve).begin());
}

function failed(exit: Ending['exit'], error: string, durationMs: number): Ending {
  return { exit, error, value: 'null', durationMs };
}

class Watch {
  readonly #output: Output;
  #began = performance.now();
  #running = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly job: Job,
    private readonly limits: Limits,
    private readonly signal: AbortSignal,
    private readonly startMs: number,
    private readonly done: (outcome: Outcome) => void,
  ) {
    this.#output = new Output(limits.maxOutput);
  }

  begin(): void {
    const { worker, request, transfer } = this.job;
    if (this.signal.aborted) return this.#cancel();
    this.signal.addEventListener('abort', this.#cancel);
    worker.onmessage = ({ data }) => this.#take(data);
    worker.onerror = (event) => {
      event.preventDefault?.();
      this.#crash(event.message || 'its worker failed');
    };
    worker.onmessageerror = () => this.#crash('its worker said something that cannot be read');
    this.#timer = setTimeout(() => this.#crash('it did not begin in time'), this.startMs);
    worker.postMessage(request, transfer);
  }

  #take(data: unknown): void {
    if (!isObject(data)) return this.#crash('its worker said something that it never says');
    if (typeof data.stdout === 'string') return this.#print('stdout', data.stdout);
    if (typeof data.stderr === 'string') return this.#print('stderr', data.stderr);
    if (data.begins === true && !this.#running) return this.#start();
    if (typeof data.broken === 'string') return this.#crash(data.broken.slice(0, 300));
    const end = readEnding(data.end);
    if (end) this.#end(end);
    else this.#crash('its worker said something that it never says');
  }

  #start(): void {
    this.#running = true;
    this.#began = performance.now();
    clearTimeout(this.#timer);
    const { timeoutMs } = this.limits;
    this.#timer = setTimeout(() => {
      this.#end(failed('timeout', `the program ran longer than ${timeoutMs / 1000}s and was stopped`, timeoutMs));
    }, timeoutMs);
  }

  #print(stream: 'stdout' | 'stderr', text: string): void {
    if (!this.#output.add(stream, text)) this.#end(failed('output_limit', this.#output.limitError(), this.#duration()));
  }

  #cancel = (): void => this.#end(failed('cancelled', 'the call was cancelled', this.#duration()));

  #crash(reason: string): void {
    this.#end(failed('crashed', `its worker ended before the program did (${reason})`, this.#duration()));
  }

  #duration(): number {
    return this.#running ? Math.round(performance.now() - this.#began) : 0;
  }

  #end(end: Ending): void {
    const { worker } = this.job;
    worker.onmessage = worker.onerror = worker.onmessageerror = null;
    worker.terminate();
    clearTimeout(this.#timer);
    this.signal.removeEventListener('abort', this.#cancel);
    const { stdout, stderr } = this.#output;
    this.done({ stdout, stderr, ...end });
  }
}
