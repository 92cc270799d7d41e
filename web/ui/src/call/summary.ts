import type { CallState } from './state';

/** What a call was like, told when it is over. */
export interface CallSummary {
  callId: string;
  threadId: string;
  reason: string;
  durationMs: number;
  /** In US dollars; null when no price is known. */
  cost: number | null;
  tokens: number;
}

export function summaryOf({ callId, threadId, cost, tokens }: CallState, reason: string, durationMs: number): CallSummary {
  return { callId, threadId, reason, durationMs, cost, tokens };
}
