import { isObject, parseJson } from '../base/json';

// What a program did, in the form in which the server's own tools say it.

export const exits = [
  'completed',
  'exception',
  'timeout',
  'out_of_memory',
  'stack_overflow',
  'output_limit',
  'crashed',
  'cancelled',
] as const;
export type Exit = (typeof exits)[number];

export interface Outcome {
  stdout: string;
  stderr: string;
  /** The value of the last expression as JSON text. */
  value: string;
  durationMs: number;
  exit: Exit;
  /** What went wrong; empty when the program completed. */
  error: string;
}

/** How a program ended, without what it printed. */
export type Ending = Pick<Outcome, 'exit' | 'value' | 'error' | 'durationMs'>;

export interface Limits {
  timeoutMs: number;
  memoryBytes: number;
  /** Bytes of stdout and stderr together, and of the value. */
  maxOutput: number;
}

export const defaultLimits: Limits = { timeoutMs: 10_000, memoryBytes: 64 << 20, maxOutput: 64 << 10 };

/** The largest program, in bytes. */
export const maxCode = 256 << 10;

const encoder = new TextEncoder();

export function byteLength(text: string): number {
  return encoder.encode(text).length;
}

/** The first bytes of a text, without breaking a character. */
export function head(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  const { read } = encoder.encodeInto(text, new Uint8Array(bytes));
  return text.slice(0, read);
}

/** Shortens a text to about so many bytes, and says so. */
export function cut(text: string, bytes: number): string {
  const all = byteLength(text);
  return all <= bytes ? text : `${head(text, bytes)}\n[cut: ${all} bytes in all]`;
}

/** Collects what a program prints, up to a limit for both streams together. */
export class Output {
  stdout = '';
  stderr = '';
  full = false;
  #bytes = 0;

  constructor(private readonly max: number) {}

  /** Takes a piece of a stream; false when there is no room for more. */
  add(stream: 'stdout' | 'stderr', text: string): boolean {
    if (this.full) return false;
    const room = this.max - this.#bytes;
    const bytes = text.length > room ? text.length : byteLength(text);
    this.full = bytes > room;
    this[stream] += this.full ? `${head(text, room)}\n[cut: the limit is ${this.max} bytes]` : text;
    this.#bytes += bytes;
    return !this.full;
  }

  limitError(): string {
    return `the program printed more than ${this.max} bytes and was stopped; print less`;
  }
}

/** The ending of a program with its value, unless that is too long. */
export function valueEnding(json: string, max: number, durationMs: number): Ending {
  const bytes = byteLength(json);
  if (bytes <= max) return { exit: 'completed', value: json, error: '', durationMs };
  const error = `the value is ${bytes} bytes long, the limit is ${max}; return less`;
  return { exit: 'output_limit', value: JSON.stringify(cut(json, max)), error, durationMs };
}

/** Reads the ending that a worker tells; null when it is none. */
export function readEnding(raw: unknown): Ending | null {
  if (!isObject(raw)) return null;
  const { exit, value, error, durationMs } = raw;
  const isExit = exits.some((known) => known === exit);
  if (!isExit || typeof value !== 'string' || typeof error !== 'string' || typeof durationMs !== 'number') return null;
  const duration = Number.isFinite(durationMs) ? Math.max(0, Math.round(durationMs)) : 0;
  return { exit: exit as Exit, value, error, durationMs: duration };
}

// What a client may answer, with room for what the event adds.
const maxAnswer = 63 << 10;
const shares = [20 << 10, 10 << 10, 5 << 10, 2 << 10];

/** The outcome as the answer of a tool call. What does not fit is cut, and says so. */
export function answerOf(outcome: Outcome): string {
  const whole = encode(outcome);
  if (byteLength(whole) <= maxAnswer) return whole;
  let answer = '';
  for (const share of shares) {
    const value = byteLength(outcome.value) > share ? JSON.stringify(cut(outcome.value, share)) : outcome.value;
    const { stdout, stderr, error } = outcome;
    answer = encode({ ...outcome, value, stdout: cut(stdout, share), stderr: cut(stderr, share), error: cut(error, share) });
    if (byteLength(answer) <= maxAnswer) break;
  }
  return answer;
}

function encode({ value, error, ...rest }: Outcome): string {
  const known = parseJson(value);
  // Written as it came: the numbers of a value are not to be rounded by the way.
  const json = known === undefined ? 'null' : value;
  const { stdout, stderr, durationMs, exit } = rest;
  const fields = [`"stdout":${JSON.stringify(stdout)}`, `"stderr":${JSON.stringify(stderr)}`, `"value":${json}`];
  fields.push(`"durationMs":${durationMs}`, `"exit":${JSON.stringify(exit)}`);
  if (error !== '') fields.push(`"error":${JSON.stringify(error)}`);
  return `{${fields.join(',')}}`;
}
