import type { CallState } from './state';

/** The summary of a call that has ended. */
export interface CallSummary {
  callId: string;
  threadId: string;
  reason: string;
  durationMs: number;
  /** In US dollars; null if no price is known. */
  cost: number | null;
  tokens: number;
}

export function summaryOf({ callId, threadId, cost, tokens }: CallState, reason: string, durationMs: number): CallSummary {
  return { callId, threadId, reason, durationMs, cost, tokens };
}
