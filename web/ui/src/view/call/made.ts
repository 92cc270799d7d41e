import { readChart, type Chart } from '../../charts/output';
import { mediaOf } from '../../message/content';
import type { Message } from '../../message/message';

/** Something to look at that came up in a call: a chart or a table, else the address of a picture. */
export interface Made {
  id: string;
  chart: Chart | null;
  url: string;
}

/** How many of the last messages are looked through: what is older is not what is talked about. */
const lookedAt = 12;

/** What was made or shown last in a call. */
export function madeIn(messages: Message[], callId: string): Made | null {
  const parts = messages
    .slice(-lookedAt)
    .filter(({ metadata }) => callId !== '' && (metadata.callId === undefined || metadata.callId === callId))
    .flatMap((message) => message.parts.map((part, at) => ({ id: `${message.id} ${at}`, part })));
  for (const { id, part } of parts.reverse()) {
    if (part.kind === 'file') return { id, chart: null, url: part.url };
    if (part.kind !== 'tool' || part.state !== 'done') continue;
    const chart = readChart(part.output);
    const picture = mediaOf(part.output).find(({ kind }) => kind === 'image');
    if (chart || picture) return { id, chart, url: picture?.url ?? '' };
  }
  return null;
}
