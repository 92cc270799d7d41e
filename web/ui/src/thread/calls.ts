import type { Message } from '../message/message';

// Facts about the calls of a thread, most of them taken from their messages.

/** The live call of a thread after one has ended; empty for none. The end of an old call may come after the start of a new one. */
export function afterEnd(live: string, ended: string): string {
  return ended === '' || live === 'live' || live === ended ? '' : live;
}

/** The stages of an answer, as the server measures them: milliseconds since the user stopped speaking. */
export const stages = ['turn', 'transcription', 'first_text', 'first_clause', 'commit', 'response', 'first_audio', 'first_packet'] as const;
export type Stage = (typeof stages)[number];

/** When an answer reached its stages, in order. */
export type AnswerStages = { stage: Stage; ms: number }[];

export interface PastCall {
  callId: string;
  tokens: number;
  answers: AnswerStages[];
  /** Its messages that are in its recording, in order. */
  sounds: { id: string; role: 'user' | 'assistant'; start: number; end: number }[];
}

/** The calls of a thread by the id of their last message. */
export function callsOf(messages: Message[]): Map<string, PastCall> {
  const calls = new Map<string, { last: Message; call: PastCall }>();
  for (const message of messages) {
    const { callId, tokens } = message.metadata;
    if (callId === undefined) continue;
    const known = calls.get(callId) ?? { last: message, call: { callId, tokens: 0, answers: [], sounds: [] } };
    known.last = message;
    known.call.tokens += tokens ?? 0;
    const answer = stagesOf(message);
    if (answer.length > 0) known.call.answers.push(answer);
    const { audio } = message.metadata;
    if (audio && message.role !== 'system') known.call.sounds.push({ id: message.id, role: message.role, ...audio });
    calls.set(callId, known);
  }
  return new Map([...calls.values()].map(({ last, call }) => [last.id, call]));
}

function stagesOf({ role, metadata }: Message): AnswerStages {
  if (role !== 'assistant') return [];
  const ofCascade = metadata.latencyMs?.turn !== undefined; // its own stages say more
  let reached = 0;
  return stages.flatMap((stage) => {
    const ms = metadata.latencyMs?.[stage];
    if (ms === undefined || (ofCascade && (stage === 'commit' || stage === 'response'))) return [];
    reached = Math.max(reached, ms);
    return [{ stage, ms: reached }];
  });
}

/** How long an answer took until its first sound was sent to the user, or as far as it got. */
export function answerMs(answer: AnswerStages): number {
  return answer.at(-1)?.ms ?? 0;
}

/** The median of some numbers; undefined if there are none. */
export function median(values: number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
