import { asList, asNumber, asObject, asText, parseJson } from '../base/json';

/** The user's settings for calls, stored in the browser. */
export interface CallSettings {
  /** Ids of devices; empty means the system's default. */
  microphone: string;
  speaker: string;
  /** Empty means the server's. */
  voice: string;
  /** The voice service by its name; empty means the assistant's or the server's first. */
  upstream: string;
  mode: 'hands-free' | 'hold';
  /** The microphone pauses while the assistant speaks. */
  halfDuplex: boolean;
  /** From 0.5 to 1.5. */
  speed: number;
  /** From 0 to 1. */
  volume: number;
  awake: boolean;
  /** m and the space bar have a meaning during a call. */
  shortcuts: boolean;
  /** The user wants calls to be recorded, where the server may. */
  record: boolean;
  /** Assistants whose calls the user has agreed to have recorded. */
  agreed: string[];
}

export const defaultSettings: CallSettings = {
  microphone: '',
  speaker: '',
  voice: '',
  upstream: '',
  mode: 'hands-free',
  halfDuplex: false,
  speed: 1,
  volume: 1,
  awake: true,
  shortcuts: true,
  record: false,
  agreed: [],
};

/** Reads stored settings; invalid ones are dropped. */
export function readSettings(text: string | null): CallSettings {
  const raw = asObject(parseJson(text ?? ''));
  const between = (value: unknown, low: number, high: number) => Math.min(high, Math.max(low, asNumber(value, 1)));
  return {
    microphone: asText(raw.microphone).slice(0, 200),
    speaker: asText(raw.speaker).slice(0, 200),
    voice: asText(raw.voice).slice(0, 60),
    upstream: asText(raw.upstream).slice(0, 60),
    mode: raw.mode === 'hold' ? 'hold' : 'hands-free',
    halfDuplex: raw.halfDuplex === true,
    speed: between(raw.speed, 0.5, 1.5),
    volume: between(raw.volume, 0, 1),
    awake: raw.awake !== false,
    shortcuts: raw.shortcuts !== false,
    record: raw.record === true,
    agreed: asList(raw.agreed).map((id) => asText(id)).filter(Boolean).slice(-200),
  };
}

const key = 'voicebridge-settings';

export class Settings {
  current = $state.raw<CallSettings>(readSettings(stored()));

  set(change: Partial<CallSettings>): void {
    this.current = { ...this.current, ...change };
    try {
      // Another tab may have changed the rest.
      localStorage.setItem(key, JSON.stringify({ ...readSettings(stored()), ...change }));
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  }
}

function stored(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}
