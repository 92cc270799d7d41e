import { asText, type Json } from '../base/json';
import type { Caption } from '../message/live';

/** Steps a second of a voice until this call has heard one: a letter is one step, and where a clause or a sentence ends there are some more. */
const usualPace = 18.5;
const clauseSteps = 4;
const sentenceSteps = 9;
/** A word is lit this long before it is said, for a pause is noticed late, and a word that is lit late looks wrong. */
const leadSeconds = 0.12;
/** From this level on a voice is heard. */
const audible = 0.1;
/** A shorter silence is inside a word. */
const pauseMs = 220;
/** How far the estimate may be from where a pause belongs at which it is put right: some steps, and a share of those since the last one, which is larger while the voice is not known. */
const near = 6;
const share = { known: 0.25, unknown: 0.6 };

const clauseEnd = /[.!?…:;,—–。！？](?=\s|$)|\n/g;

/** How many letters have been said, of answers that are not said to their end. */
export type Spoken = Readonly<Record<string, number>>;

/**
 * How far the answers of a call have been spoken. Their words come long before their sound, and nobody says which word is
 * being played. So it is estimated, as the server does for what was interrupted: by the time since the voice began and the
 * pace of this voice, and put right at its pauses, where sentences and clauses end.
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
  #steps = 0;
  #before = 0;
  /** The voice has begun. */
  #heard = false;
  #silentSince = 0;
  /** Where the estimate was at the beginning of a silence, until that is a pause. */
  #silentAt = -1;
  /** Steps and time at the last pause. */
  #mark = { steps: 0, at: 0 };
  #texts: string[] = [];

  take(event: Json, now: number): void {
    const type = asText(event.type);
    const response = asText(event.response_id);
    if (type.startsWith('response.output_audio_transcript.')) this.#responses.set(asText(event.item_id), response);
    if (type === 'output_audio_buffer.started') {
      this.#reports = true;
      this.#playing = response;
      this.#before = now;
      this.#heard = false;
      this.#steps = this.#silentSince = 0;
      this.#mark = { steps: 0, at: now };
    } else if (type === 'output_audio_buffer.stopped' || type === 'output_audio_buffer.cleared' || type.startsWith('bridge.upstream.')) {
      for (const id of this.#responses.values()) if (id === this.#playing || type.startsWith('bridge.')) this.#over.add(id);
      this.#playing = '';
    }
  }

  /** Takes how loud the voice is, about ten times a second. */
  hear(level: number, now: number): void {
    const past = Math.min(1000, now - this.#before);
    this.#before = now;
    if (this.#playing === '') return;
    const loud = level >= audible;
    // A level that never comes is no silence: the browser measures none.
    if (!this.#heard && !loud && now - this.#mark.at < 1500) return;
    if (!this.#heard) this.#mark.at = now;
    else this.#steps += (this.#pace * past) / 1000;
    this.#heard = true;
    if (loud) this.#silentSince = 0;
    else if (this.#silentSince === 0) [this.#silentSince, this.#silentAt] = [now - past / 2, this.#steps];
    else if (this.#silentAt >= 0 && now - this.#silentSince >= pauseMs) this.#pause(now);
  }

  // What ends nearest is over.
  #pause(now: number): void {
    const at = this.#silentAt;
    this.#silentAt = -1;
    const ends = [...this.#texts.join('\n').matchAll(clauseEnd)].map(({ index }) => this.#stepsTo(index + 1, false));
    const end = ends.filter((steps) => steps > this.#mark.steps).reduce((best, steps) => (Math.abs(steps - at) < Math.abs(best - at) ? steps : best), Infinity);
    if (Math.abs(end - at) > near + (this.#pace === usualPace ? share.unknown : share.known) * (at - this.#mark.steps)) return;
    const seconds = (this.#silentSince - this.#mark.at) / 1000;
    if (seconds >= 1) this.#pace = Math.min(34, Math.max(7, (this.#pace + (end - this.#mark.steps) / seconds) / 2));
    this.#mark = { steps: end, at: this.#silentSince };
    this.#steps = end + (this.#pace * (now - this.#silentSince)) / 1000;
  }

  /** The steps to a letter, with those of a pause before it; after: with those after the last one. */
  #stepsTo(letters: number, after = true): number {
    const text = this.#texts.join('\n').slice(0, letters);
    const pauses = [...text.matchAll(clauseEnd)].filter(({ index }) => after || index + 1 < letters);
    return letters + pauses.reduce((sum, [end]) => sum + (/[.!?…。！？\n]/.test(end) ? sentenceSteps : clauseSteps), 0);
  }

  /** How many letters have been said. */
  #letters(): number {
    const text = this.#texts.join('\n');
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.#stepsTo(middle, false) <= this.#steps + (this.#heard ? leadSeconds * this.#pace : 0)) low = middle;
      else high = middle - 1;
    }
    return low < text.length ? low : Infinity;
  }

  /** What is not said to its end of the captions. */
  of(captions: Caption[]): Spoken {
    const spoken: Record<string, number> = {};
    this.#texts = [];
    const playing: { itemId: string; text: string }[] = [];
    for (const { itemId, text } of captions) {
      const response = this.#responses.get(itemId);
      if (!this.#reports || response === undefined || this.#over.has(response)) continue;
      if (response !== this.#playing) {
        spoken[itemId] = 0; // it waits for its turn
        continue;
      }
      this.#texts.push(text);
      playing.push({ itemId, text });
    }
    let left = this.#letters();
    for (const { itemId, text } of playing) {
      if (left < text.length) spoken[itemId] = Math.max(0, left);
      left -= text.length + 1;
    }
    return spoken;
  }
}
