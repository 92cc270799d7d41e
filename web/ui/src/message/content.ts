import { asObject, asObjects, asText, isObject, parseJson, type Json } from '../base/json';

// A tool's output, in readable form.

/** A tool's output, with printed text taken out of the JSON. */
export interface Reading {
  /** What a program printed or an MCP tool said, unchanged. */
  printed: string;
  /** The rest; undefined if nothing is left. */
  rest: unknown;
}

const printedKeys = ['stdout', 'stderr', 'logs', 'text', 'markdown'];

/** Reads an output: text inside JSON is shown as text, with its line breaks. */
export function readingOf(output: unknown): Reading {
  const value = typeof output === 'string' ? (parsedObject(output) ?? output) : output;
  if (typeof value === 'string') return { printed: value, rest: undefined };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { printed: '', rest: value };
  const rest: Record<string, unknown> = {};
  const printed: string[] = [];
  for (const [key, entry] of Object.entries(value)) {
    if (key === 'content' && isContent(entry)) {
      printed.push(...entry.flatMap((piece) => (piece.type === 'text' ? [asText(piece.text)] : [])));
      const left = entry.filter((piece) => piece.type !== 'text' && mediaOf({ content: [piece] }).length === 0);
      if (left.length > 0) rest[key] = left;
    } else if (printedKeys.includes(key) && typeof entry === 'string') printed.push(entry.replace(/\n+$/, ''));
    else if (printedKeys.includes(key) && isLines(entry)) printed.push(entry.join('\n'));
    else rest[key] = entry;
  }
  return { printed: printed.filter((text) => text !== '').join('\n'), rest: Object.keys(rest).length > 0 ? rest : undefined };
}

/** An image or a sound that an MCP tool returned and the server stores beside the thread. */
export interface Media {
  kind: 'image' | 'audio';
  url: string;
}

const isContent = (value: unknown): value is Json[] => Array.isArray(value) && value.length > 0 && value.every((piece) => isObject(piece) && typeof piece.type === 'string');

/** The images and sounds of a tool's output. */
export function mediaOf(output: unknown): Media[] {
  return asObjects(asObject(output).content).flatMap((piece): Media[] => {
    const media = isObject(piece.resource) ? piece.resource : piece;
    const [kind, url] = [asText(media.mimeType).split('/')[0], asText(media.url)];
    return (kind === 'image' || kind === 'audio') && isKept(url) ? [{ kind, url }] : [];
  });
}

/** Only what this server stores: an image elsewhere would tell its server who looks at it. */
export const isKept = (url: string): boolean => /^\/?api\/threads\/[^/]+\/images\/[^/]+$/.test(url);

function isLines(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((line) => typeof line === 'string');
}

function parsedObject(text: string): unknown {
  const value = text.trimStart().startsWith('{') ? parseJson(text) : undefined;
  return typeof value === 'object' && value !== null ? value : undefined;
}

/** The complete sentences at the beginning of a growing text, and where they end. */
export function finishedSentences(text: string, from: number): { said: string; end: number } {
  let end = from;
  for (const match of text.slice(from).matchAll(/[.!?…]+["”’)\]]*(?=\s|$)|[。！？]+[”’」』）]*|\n+/g)) end = from + match.index + match[0].length;
  return { said: text.slice(from, end).trim(), end };
}
