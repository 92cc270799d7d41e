import { PlainError } from '../base/errors';
import { Microphone, openMicrophone } from '../device/microphone';
import type { Settings } from '../device/settings.svelte';
import { t } from '../words/language.svelte';
import { Speaker } from './speaker';

/** How long a tone is heard. */
const cueMs = 160;

interface Hooks {
  /** The microphone is open only while the user holds a button. */
  holds: () => boolean;
  /** Another microphone is in use. */
  onTrack: (track: MediaStreamTrack | null) => Promise<void> | undefined;
  onInfo: (code: string, text: string) => void;
  onProblem: (code: string, text: string) => void;
  onFailure: (thrown: unknown) => void;
}

/** The sound of a call: its microphone, and the loudspeaker. */
export class Sound {
  muted = $state(false);
  /** The user holds the button that opens the microphone. */
  holding = $state(false);
  /** The browser refused to play audio; a click is needed. */
  needsTap = $state(false);
  resting = $derived.by(() => this.hooks.holds() && !this.holding);

  readonly #speaker = new Speaker();
  /** There is one for as long as there is a call. */
  #context: AudioContext | null = null;
  #microphone: Microphone | null = null;
  /** The chosen microphone that is in use, as in the settings. */
  #chosen = '';
  #playing = false;

  constructor(
    private readonly settings: Settings,
    private readonly hooks: Hooks,
  ) {}

  /** The assistant's voice can be heard. */
  get audible(): boolean {
    return !this.needsTap && this.settings.current.volume > 0;
  }

  /** What the microphone hears. */
  get stream(): MediaStream | null {
    return this.#microphone?.stream ?? null;
  }

  /** The element that plays the assistant's voice. */
  attach(element: HTMLAudioElement): void {
    this.#speaker.attach(element);
  }

  /** Opens the chosen microphone, during a click, so that the browser plays sound, too; false if it was closed meanwhile. */
  async open(): Promise<boolean> {
    this.muted = this.holding = this.needsTap = this.#playing = false;
    const context = new AudioContext();
    this.#context = context;
    void context.resume();
    return (await this.#change(context)) !== null;
  }

  /** Tells without words that the call begins, that it ends, or whether it hears: a soft tone, and on a phone a touch. */
  cue(hertz: number): void {
    const context = this.#context;
    navigator.vibrate?.(cueMs / 4);
    if (!context || !this.audible) return;
    const [tone, gain, at] = [context.createOscillator(), context.createGain(), context.currentTime];
    tone.frequency.value = hertz;
    gain.gain.setValueAtTime(0.06 * this.settings.current.volume, at);
    gain.gain.exponentialRampToValueAtTime(0.0001, at + cueMs / 1000);
    tone.connect(gain).connect(context.destination);
    tone.start();
    tone.stop(at + cueMs / 1000);
  }

  close(): void {
    this.#microphone?.close();
    this.#microphone = null;
    this.#speaker.rest();
    const context = this.#context;
    this.#context = null;
    setTimeout(() => void context?.close(), cueMs); // a tone may be on its way
  }

  /** Plays the assistant's voice. */
  hear(stream: MediaStream): void {
    this.#speaker.hear(stream, this.#context);
    this.#speaker.use(this.settings.current.speaker, this.settings.current.volume);
    void this.play();
  }

  /** Plays the voice after a click, where the browser requires one. */
  async play(): Promise<void> {
    void this.#context?.resume();
    this.needsTap = !(await this.#speaker.play());
  }

  toggleMute(): void {
    if (!this.#context) return;
    this.muted = !this.muted;
    this.#gate();
    this.cue(this.muted ? 392 : 523);
  }

  hold(down: boolean): void {
    this.holding = down;
    this.#gate();
  }

  /** The assistant begins or ends to speak. */
  speaks(playing: boolean): void {
    this.#playing = playing;
    this.#gate();
  }

  /** Applies changes of the settings. */
  async apply(): Promise<void> {
    const { speaker, volume, microphone } = this.settings.current;
    this.#speaker.use(speaker, volume);
    if (!this.hooks.holds()) this.holding = false;
    this.#gate();
    const context = this.#context;
    if (!context || !this.#microphone || microphone === this.#chosen) return;
    await this.#change(context).catch((thrown: unknown) => {
      if (context === this.#context) this.hooks.onFailure(thrown);
    });
  }

  /** How loud a side is, from 0 to 1. A muted microphone is silent. */
  level(side: 'you' | 'assistant'): number {
    if (side === 'assistant') return this.#speaker.level();
    return this.muted || this.resting ? 0 : this.heard();
  }

  /** The levels of the last pieces of the assistant's voice, of so many seconds each. */
  voice(count: number, seconds: number): number[] {
    return this.#speaker.pieces(count, seconds);
  }

  /** How loud the microphone is, muted or not. */
  heard(): number {
    return this.#microphone?.level() ?? 0;
  }

  // A headset was unplugged: the call goes on with another microphone, or with the next that is connected.
  async #lost(context: AudioContext): Promise<void> {
    const lost = this.#microphone;
    try {
      const name = await this.#change(context);
      if (name) this.hooks.onInfo('mic_changed', t().micChanged(name));
    } catch (thrown) {
      if (lost !== this.#microphone) return;
      const forbidden = thrown instanceof PlainError && thrown.code === 'mic_denied';
      this.hooks.onProblem('mic_changed', forbidden ? thrown.message : t().micLost);
      navigator.mediaDevices.addEventListener('devicechange', () => lost === this.#microphone && void this.#lost(context), { once: true });
    }
  }

  /** Opens the chosen microphone, or the system's if that is gone, and returns its name; null if it is no longer wanted. */
  async #change(context: AudioContext): Promise<string | null> {
    const { microphone: chosen } = this.settings.current;
    const stream = await openMicrophone(chosen);
    // Another choice opens its own, unless there is no microphone yet.
    if (context !== this.#context || (this.#microphone && chosen !== this.settings.current.microphone)) {
      stream.getTracks().forEach((track) => track.stop());
      return null;
    }
    this.#microphone?.close();
    this.#chosen = chosen;
    this.#microphone = new Microphone(stream, context, () => void this.#lost(context));
    this.#gate();
    const { track } = this.#microphone;
    await this.hooks.onTrack(track);
    return track?.label ?? '';
  }

  // Whether the microphone's audio is sent.
  #gate(): void {
    const paused = this.settings.current.halfDuplex && this.#playing;
    this.#microphone?.open(!this.muted && !this.resting && !paused);
  }
}
