import { microphoneError } from '../words/say';
import { meterOf, type Meter } from './meter';

const processing = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };

/** Opens the microphone, with errors that say what to do. If the chosen one is gone, the system's is used. */
export async function openMicrophone(id: string): Promise<MediaStream> {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia) throw microphoneError('insecure');
  const open = (deviceId?: ConstrainDOMString) => navigator.mediaDevices.getUserMedia({ audio: { ...processing, ...(deviceId ? { deviceId } : {}) } });
  try {
    // Without await a rejection would not be caught here.
    return await open(id === '' ? undefined : { ideal: id });
  } catch (thrown) {
    throw microphoneError(thrown instanceof Error ? thrown.name : 'unknown');
  }
}

/** A microphone that is in use. */
export class Microphone {
  readonly #meter: Meter;
  // The meter also hears muted audio, which never leaves the page.
  readonly #ear: MediaStream;

  constructor(
    readonly stream: MediaStream,
    context: AudioContext,
    onLost: () => void,
  ) {
    for (const track of stream.getAudioTracks()) track.onended = onLost;
    this.#ear = stream.clone();
    this.#meter = meterOf(context, this.#ear);
  }

  get track(): MediaStreamTrack | null {
    return this.stream.getAudioTracks()[0] ?? null;
  }

  /** Lets sound through, or silence. */
  open(yes: boolean): void {
    for (const track of this.stream.getAudioTracks()) track.enabled = yes;
  }

  /** How loud it is, even while muted. */
  level(): number {
    return this.#meter.level();
  }

  close(): void {
    this.#meter.close();
    for (const track of [...this.stream.getTracks(), ...this.#ear.getTracks()]) {
      track.onended = null;
      track.stop();
    }
  }
}
