import type { ToolRun } from '../../message/live';
import type { ToolPart } from '../../message/message';
import { t } from '../../words/language.svelte';

/** The state of a tool call, in words for the user. */
export interface Outcome {
  state: 'running' | 'done' | 'failed' | 'cancelled' | 'refused';
  status: string;
  /** Why it did not end well; empty if there is nothing to say. */
  problem: string;
}

// Results that the server writes for refused calls are meant for the model, not the user.
const refusal = /^The user refused this tool call\b/;
const lapse = /^The user was asked to approve this tool call and did not answer\b/;
const undecided = /^The turn ended before the user decided\b/;
const cancellation = /^The user cancelled this tool call\b/;

/** Cuts a text at the addresses in it. Only those of http and https become links, as what a server says is not ours. */
export function linked(text: string): { text: string; href?: string }[] {
  return text.split(/(\bhttps?:\/\/[^\s"'`<>\\(){}[\]]*[^\s"'`<>\\(){}[\].,;:!?])/i).map((piece, at) => (at % 2 && URL.canParse(piece) ? { text: piece, href: piece } : { text: piece }));
}

/** Combines what the message and the live call know about a tool call. */
export function outcomeOf(part: ToolPart, run: ToolRun | undefined, closed: boolean): Outcome {
  const words = t().tool;
  const told = part.errorText || (run && run.state !== 'running' ? run.message : '');
  const failed = part.state === 'failed' || (part.state === 'running' && run !== undefined && ['failed', 'cancelled'].includes(run.state));
  if (failed && refusal.test(told)) return { state: 'refused', status: words.refused, problem: words.refusedText };
  if (failed && lapse.test(told)) return { state: 'refused', status: words.lapsed, problem: words.lapsedText };
  if (failed && undecided.test(told)) return { state: 'refused', status: words.lapsed, problem: words.undecidedText };
  if (failed && (run?.state === 'cancelled' || cancellation.test(told))) {
    return { state: 'cancelled', status: words.cancelled, problem: told || words.noReason };
  }
  if (failed) return { state: 'failed', status: words.failed, problem: told || words.noReason };
  if (part.state === 'running') return { state: 'running', status: closed ? words.unfinished : words.running, problem: '' };
  return { state: 'done', status: words.done, problem: '' };
}
