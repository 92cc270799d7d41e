import type { Line } from './line';
import type { Sight } from './sight.svelte';

/** The largest event with a picture, which other events have to wait for. */
const largest = 192 * 1024;

/** What a model that can be shown images may see in the call on this line; null if there is nothing to see. */
export async function sightOf(line: Line, onProblem: (code: string, text: string) => void): Promise<Sight | null> {
  const parts = await import('./sight.svelte').catch(() => null); // a call goes on without
  const has = (await parts?.subjects()) ?? [];
  if (!parts || has.length === 0) return null;
  const most = () => Math.min(line.pc.sctp?.maxMessageSize ?? 0, largest);
  return new parts.Sight(has, { open: parts.openView, send: (event) => line.send(event), most, onProblem });
}
