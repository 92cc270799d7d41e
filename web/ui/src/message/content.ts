import { parseJson } from '../base/json';

// What a tool gave, as people read it.

/** A tool's output with the text that it printed taken out of its JSON. */
export interface Reading {
  /** What a program printed or an MCP tool said, as it looked there. */
  printed: string;
  /** The rest; undefined when nothing is left. */
  rest: unknown;
}

const printedKeys = ['stdout', 'stderr', 'logs', 'text', 'markdown'];

/** Reads an output: text that lies in JSON is shown as text, with its line breaks. */
export function readingOf(output: unknown): Reading {
  const value = typeof output === 'string' ? (parsedObject(output) ?? output) : output;
  if (typeof value === 'string') return { printed: value, rest: undefined };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { printed: '', rest: value };
  const rest: Record<string, unknown> = {};
  const printed: string[] = [];
  for (const [key, entry] of Object.entries(value)) {
    if (printedKeys.includes(key) && typeof entry === 'string') printed.push(entry.replace(/\n+$/, ''));
    else if (printedKeys.includes(key) && isLines(entry)) printed.push(entry.join('\n'));
    else rest[key] = entry;
  }
  return { printed: printed.filter((text) => text !== '').join('\n'), rest: Object.keys(rest).length > 0 ? rest : undefined };
}

function isLines(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((line) => typeof line === 'string');
}

function parsedObject(text: string): unknown {
  const value = text.trimStart().startsWith('{') ? parseJson(text) : undefined;
  return typeof value === 'object' && value !== null ? value : undefined;
}

/** The whole sentences at the beginning of a text that still grows, and where they end. */
export function finishedSentences(text: string, from: number): { said: string; end: number } {
  let end = from;
  for (const match of text.slice(from).matchAll(/[.!?…。！？]+["”’)\]]*(?=\s|$)|\n+/g)) end = from + match.index + match[0].length;
  return { said: text.slice(from, end).trim(), end };
}
