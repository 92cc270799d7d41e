import { asNumber, asObject, type Json } from '../base/json';
import type { CallSettings } from '../device/settings.svelte';

type Told = Pick<CallSettings, 'voice' | 'mode' | 'speed'>;

/** How the server lets a user speak hands-free where it has not said how. */
const handsFree: Json = { type: 'server_vad' };

/** The speed that a session has, by its session.updated. */
export function speedOf(event: Json): number {
  return asNumber(asObject(asObject(asObject(event.session).audio).output).speed, 1);
}

/**
 * The event that sets a call's client tools (null: unchanged) and how the user wants to speak, as far as that differs
 * from what the call was told before; null if nothing does. turns is the session's own turn detection, to go back to.
 */
export function sessionUpdate(now: Told, told: Told, turns: Json | null, tools: object[] | null): object | null {
  const output = { ...(now.voice && now.voice !== told.voice ? { voice: now.voice } : {}), ...(now.speed !== told.speed ? { speed: now.speed } : {}) };
  const input = now.mode === told.mode ? {} : { turn_detection: now.mode === 'hold' ? null : (turns ?? handsFree) };
  const audio = { ...(Object.keys(input).length > 0 ? { input } : {}), ...(Object.keys(output).length > 0 ? { output } : {}) };
  const session = { type: 'realtime', ...(tools ? { tools } : {}), ...(Object.keys(audio).length > 0 ? { audio } : {}) };
  return Object.keys(session).length > 1 ? { type: 'session.update', session } : null;
}
