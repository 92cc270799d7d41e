import type { CallSettings } from '../device/settings.svelte';

/** The event that sets a call's client tools (null: unchanged) and how the user wants to speak. */
export function sessionUpdate({ voice, mode, speed }: CallSettings, tools: object[] | null): object {
  const output = { ...(voice ? { voice } : {}), ...(speed === 1 ? {} : { speed }) };
  const input = mode === 'hold' ? { turn_detection: null } : {};
  const audio = { ...(Object.keys(input).length > 0 ? { input } : {}), ...(Object.keys(output).length > 0 ? { output } : {}) };
  const session = { type: 'realtime', ...(tools ? { tools } : {}), ...(Object.keys(audio).length > 0 ? { audio } : {}) };
  return { type: 'session.update', session };
}
