// What a live conversation shows before it is saved.

/** The live text of one item, until its message is saved. */
export interface Caption {
  itemId: string;
  role: 'user' | 'assistant';
  text: string;
  failed: boolean;
}

/** What is known of a tool while it runs. */
export interface ToolRun {
  id: string;
  name: string;
  executor: string;
  state: 'running' | 'done' | 'failed' | 'cancelled';
  message: string;
  percent?: number;
  /** The user has asked to stop it. */
  stopping?: boolean;
  /** When it was first heard of and when it ended, in milliseconds of the page's clock. */
  startedAt?: number;
  endedAt?: number;
}

/** A tool that waits for the user's yes or no. */
export interface Approval {
  toolCallId: string;
  name: string;
  input: unknown;
  nonce: string;
  /** When the question lapses, in milliseconds since 1970. */
  until: number;
}

/** For how long the server waits for an answer, where it does not say until when. */
export const approvalMs = 60_000;

/** Until when a question can be answered. A clock that goes wrong makes the time no longer. */
export function answerableUntil(expiresAt: unknown, now: number): number {
  const at = typeof expiresAt === 'string' ? Date.parse(expiresAt) : NaN;
  return Number.isNaN(at) ? now + approvalMs : Math.min(at, now + approvalMs);
}
