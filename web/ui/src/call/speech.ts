import { asText, type Json } from '../base/json';
import type { Caption } from '../message/live';

/** Letters a second of a voice, without its pauses, until this call has heard one. */
const usualPace = 16;
/** From this level on a voice is heard. */
const audible = 0.1;
/** A shorter silence is inside a word. */
const pauseMs = 220;
/** How far the estimate may be from the end of a sentence at which it is put right. */
const near = 45;

/** How many letters have been said, of answers that are not said to their end. */
export type Spoken = Readonly<Record<string, number>>;

/**
 * How far the answers of a call have been spoken. Their words come long before their sound, and nobody says which word is
 * being played. So it is estimated, as the server does for what was interrupted: by the pace at which this voice speaks
 * while it can be heard, and put right at its pauses, where sentences and clauses end.
 */
export class Speech {
  #pace = usualPace;
  /** The response of an item. */
  #responses = new Map<string, string>();
  /** Responses that were played, or never will be. */
  #over = new Set<string>();
  #playing = '';
  /** The upstream says when it plays. */
  #reports = false;
  #letters = 0;
  #before = 0;
  #silentSince = 0;
  #voiced = 0;
  /** Letters and voiced milliseconds at the last pause. */
  #mark = { letters: 0, voiced: 0 };
  #texts: string[] = [];

  take(event: Json, now: number): void {
    const type = asText(event.type);
    const response = asText(event.response_id);
    if (type.startsWith('response.output_audio_transcript.')) this.#responses.set(asText(event.item_id), response);
    if (type === 'output_audio_buffer.started') {
      this.#reports = true;
      this.#playing = response;
      [this.#letters, this.#voiced, this.#silentSince, this.#before] = [0, 0, 0, now];
      this.#mark = { letters: 0, voiced: 0 };
    } else if (type === 'output_audio_buffer.stopped' || type === 'output_audio_buffer.cleared' || type.startsWith('bridge.upstream.')) {
      const whole = this.#texts.reduce((sum, text) => sum + text.length, 0);
      if (type === 'output_audio_buffer.stopped') this.#learn(whole);
      for (const id of this.#responses.values()) if (id === this.#playing || type.startsWith('bridge.')) this.#over.add(id);
      this.#playing = '';
    }
  }

  /** Takes how loud the voice is, about ten times a second. */
  hear(level: number, now: number): void {
    const past = Math.min(1000, now - this.#before);
    this.#before = now;
    if (this.#playing === '') return;
    if (level >= audible || (this.#voiced === 0 && this.#silentSince > 0 && now - this.#silentSince > 1500)) {
      // A level that never comes is no silence: the browser measures none.
      if (level >= audible) this.#silentSince = 0;
      this.#voiced += level >= audible ? past : 0;
      this.#letters += (this.#pace * past) / 1000;
      return;
    }
    const begun = this.#silentSince === 0;
    if (begun) this.#silentSince = now;
    else if (this.#voiced > 0 && now - this.#silentSince >= pauseMs && this.#mark.voiced < this.#voiced) this.#pause();
  }

  // The clause whose end is nearest is over.
  #pause(): void {
    const ends = [...this.#texts.join('\n').matchAll(/[.!?…:;,—–。！？](?=\s|$)|\n/g)].map(({ index }) => index + 1);
    const end = ends.filter((at) => at > this.#mark.letters).reduce((best, at) => (Math.abs(at - this.#letters) < Math.abs(best - this.#letters) ? at : best), Infinity);
    if (Math.abs(end - this.#letters) > near) return void (this.#mark.voiced = this.#voiced);
    this.#learn(end);
    this.#letters = end;
    this.#mark = { letters: end, voiced: this.#voiced };
  }

  #learn(letters: number): void {
    const [said, seconds] = [letters - this.#mark.letters, (this.#voiced - this.#mark.voiced) / 1000];
    if (seconds >= 1 && said > 0) this.#pace = Math.min(30, Math.max(6, (this.#pace + said / seconds) / 2));
  }

  /** What is not said to its end of the captions. */
  of(captions: Caption[]): Spoken {
    const spoken: Record<string, number> = {};
    this.#texts = [];
    let left = this.#letters;
    for (const { itemId, text } of captions) {
      const response = this.#responses.get(itemId);
      if (!this.#reports || response === undefined || this.#over.has(response)) continue;
      if (response !== this.#playing) {
        spoken[itemId] = 0; // it waits for its turn
        continue;
      }
      this.#texts.push(text);
      if (left < text.length) spoken[itemId] = Math.floor(Math.max(0, left));
      left -= text.length + 1;
    }
    return spoken;
  }
}
