// What a live conversation shows before it is saved.

/** The live text of one item, until its message is saved. */
export interface Caption {
  itemId: string;
  role: 'user' | 'assistant';
  text: string;
  failed: boolean;
  /** It was not heard to its end, and grows no more. */
  cut?: boolean;
}

/** Finds words, in scripts without spaces as well. */
const words = 'Segmenter' in Intl ? new Intl.Segmenter(undefined, { granularity: 'word' }) : undefined;

/** The end of the word in which a place of a text is. */
export function wordEnd(text: string, place: number): number {
  const word = place > 0 && words?.segment(text).containing(place - 1);
  return word ? word.index + word.segment.length : place;
}

/** How many letters were said so far of what is not said to its end, by item. */
type Spoken = Readonly<Record<string, number>>;

/** The captions once an answer was cut off that was spoken so far. */
export function cutCaptions(captions: Caption[], spoken: Spoken): Caption[] {
  return captions.map((caption) => {
    const place = spoken[caption.itemId];
    return place === undefined ? caption : { ...caption, text: `${caption.text.slice(0, wordEnd(caption.text, place)).trimEnd()}…`, cut: true };
  });
}

/** What was typed last into a call, and the item after which that was. */
export interface Typed {
  caption: Caption;
  after: string;
}

/** What is being said in a call, and what that answers; before and after it the last words. What was typed meanwhile is there, too. */
export function newestOf(captions: Caption[], spoken: Spoken, playing: boolean, typed: Typed | null): Caption[] {
  const both = typed ? captions.toSpliced(captions.findIndex(({ itemId }) => itemId === typed.after) + 1, 0, typed.caption) : captions;
  const all = both.filter(({ text }) => text.trim() !== '');
  const saying = playing ? all.findIndex(({ itemId }) => spoken[itemId] !== undefined) : -1;
  const at = saying >= 0 ? saying : all.length - 1;
  return all.filter((caption, n) => n === at - 1 || n === at || (n > at && caption === typed?.caption));
}

/** What is known about a tool while it runs. */
export interface ToolRun {
  id: string;
  name: string;
  executor: string;
  state: 'running' | 'done' | 'failed' | 'cancelled';
  message: string;
  percent?: number;
  /** The MCP server to which the user has to sign in first, if that is why it failed. */
  signIn?: string;
  /** The user has asked to stop it. */
  stopping?: boolean;
  /** When the page first heard of it and when it ended, in milliseconds of the page's clock. */
  startedAt?: number;
  endedAt?: number;
}

/** A tool that waits for the user's approval. */
export interface Approval {
  toolCallId: string;
  name: string;
  input: unknown;
  nonce: string;
  /** When the request expires, in milliseconds since 1970. */
  until: number;
}

/** How long the server waits for an answer, unless it says until when. */
export const approvalMs = 60_000;

/** Until when a request can be answered. A wrong clock does not extend the time, nor has it run out already. */
export function answerableUntil(expiresAt: unknown, now: number): number {
  const at = typeof expiresAt === 'string' ? Date.parse(expiresAt) : NaN;
  return at > now ? Math.min(at, now + approvalMs) : now + approvalMs;
}
