import type { CallState } from './state';
import type { AnswerTime } from './timing';

/** What a call was like, told when it is over. */
export interface CallSummary {
  threadId: string;
  reason: string;
  durationMs: number;
  /** In US dollars; null when no price is known. */
  cost: number | null;
  tokens: number;
  answers: AnswerTime[];
}

export function summaryOf({ threadId, cost, tokens, timing }: CallState, reason: string, durationMs: number): CallSummary {
  return { threadId, reason, durationMs, cost, tokens, answers: timing.answers };
}
