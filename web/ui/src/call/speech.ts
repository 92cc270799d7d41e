import { asText, type Json } from '../base/json';
import type { Caption } from '../message/live';
import { Said, type End } from './letters';

/** From this level on a voice is heard. */
const audible = 0.1;
/** How long a piece of sound is of which it is known how loud it is, in seconds. */
const pieceSeconds = 0.02;
/** A shorter silence is inside a word. */
const pauseSeconds = 0.11;
/** How long voices pause, in seconds. */
const usualPause = { sentence: 0.35, clause: 0.18, word: 0.1 };
/** A word is lit this long before it is said, for a word that is lit late looks wrong. */
const leadSeconds = 0.08;
/** A level that does not come for so long never comes: the browser measures none. */
const deafMs = 1500;

/** How fast a voice is of which nothing is known: letters in a second that is not silent, and how far that may be off. Paces are logarithms. */
const unknown = { pace: Math.log(16), sure: 1 / 0.35 ** 2 };
/** No pace is known better than that, for no voice keeps it. */
const surest = 1 / 0.1 ** 2;
/** How unevenly one letter takes its time: many letters are more even. */
const uneven = 0.9;
/** What speaks against a way by which the voice has come here, as the exponent of its probability: a pause within a clause, and ends without a pause. */
const against = { inside: 2, clause: 1.5, sentence: 4 };
/** How many ways are kept in mind. */
const keptWays = 12;
/** The estimate waits at the end of a sentence for its pause, for this share of the way there. */
const patience = 0.5;

/** How many characters have been said, of answers that are not said to their end. */
export type Spoken = Readonly<Record<string, number>>;

/** A way by which the voice may have come to where it is: at its last pause so many letters were said in so many seconds of voice. */
interface Way {
  letters: number;
  voiced: number;
  pace: number;
  /** How well the pace is known: one by its variance. */
  sure: number;
  /** How improbable this way is. */
  cost: number;
}

/**
 * How far the answers of a call have been spoken. Their words come long before their sound, and nobody says which word is
 * being played. So it is estimated, by how long the voice has been heard and by its pauses: each may be at the end of any
 * clause that is near, or of none. What explains all of them best is taken for true, so one mistake does not last.
 */
export class Speech {
  /** The response of an item. */
  #responses = new Map<string, string>();
  /** Responses that were played, or never will be. */
  #over = new Set<string>();
  #playing = '';
  /** The upstream says when it plays. */
  #reports = false;
  #began = 0;
  #before = 0;
  /** How long the voice was heard without its pauses, and has been silent, in seconds. */
  #voiced = 0;
  #silent = 0;
  #heard = false;
  #pausing = false;
  #ways: Way[] = [];
  /** The ways before the last pause. */
  #earlier: Way[] = [];
  #voice = unknown;
  #said = new Said();
  /** How many characters were taken for said: no word that is lit goes out again. */
  #lit = 0;

  take(event: Json, now: number): void {
    const type = asText(event.type);
    const response = asText(event.response_id);
    if (type.startsWith('response.output_audio_transcript.')) this.#responses.set(asText(event.item_id), response);
    if (type === 'output_audio_buffer.started') {
      this.#reports = true;
      this.#playing = response;
      this.#began = this.#before = now;
      this.#heard = this.#pausing = false;
      this.#voiced = this.#silent = this.#lit = 0;
      this.#ways = [{ letters: 0, voiced: 0, ...this.#voice, cost: 0 }];
      this.#said = new Said();
    } else if (type === 'output_audio_buffer.stopped' || type === 'output_audio_buffer.cleared' || type.startsWith('bridge.upstream.')) {
      for (const id of this.#responses.values()) if (id === this.#playing || type.startsWith('bridge.')) this.#over.add(id);
      if (this.#playing !== '') this.#remember(type === 'output_audio_buffer.stopped');
      this.#playing = '';
    }
  }

  /** Takes how loud the voice was, about ten times a second: pieces returns the levels of the last pieces of sound, of so many as are asked for and so many seconds each. */
  hear(pieces: (count: number, seconds: number) => number[], now: number): void {
    const past = Math.min(1000, now - this.#before) / 1000;
    this.#before = now;
    if (this.#playing === '') return;
    const levels = pieces(Math.round(past / pieceSeconds), pieceSeconds);
    // What was not measured is taken for more of the same.
    const deaf = !this.#heard && now - this.#began >= deafMs;
    if (deaf || (this.#heard && !this.#pausing)) this.#voiced += Math.max(0, past - levels.length * pieceSeconds);
    for (const level of levels) this.#piece(level >= audible, deaf);
  }

  #piece(loud: boolean, deaf: boolean): void {
    if (loud) {
      if (this.#pausing) this.#pause(this.#silent);
      this.#heard = true;
      this.#pausing = false;
      this.#silent = 0;
      this.#voiced += pieceSeconds;
    } else if (!this.#heard) {
      if (deaf) this.#voiced += pieceSeconds;
    } else {
      this.#silent += pieceSeconds;
      if (this.#pausing) return;
      this.#voiced += pieceSeconds;
      if (this.#silent < pauseSeconds) return;
      this.#pausing = true;
      this.#voiced -= this.#silent;
      this.#earlier = this.#ways;
      this.#pause(usualPause.clause);
    }
  }

  /** Finds out where the voice pauses, or has paused for so many seconds. */
  #pause(seconds: number): void {
    const next: Way[] = [];
    const odd = (usual: number) => Math.log(seconds / usual) ** 2 * 3;
    for (const way of this.#earlier) {
      next.push({ ...way, cost: way.cost + against.inside + odd(usualPause.word) });
      if (this.#voiced - way.voiced < 2 * pauseSeconds) continue;
      let skipped = 0;
      for (const end of this.#said.ends) {
        if (end.letters <= way.letters) continue;
        const at = arrive(way, end.letters, this.#voiced);
        next.push({ ...at, cost: at.cost + skipped + odd(end.sentence ? usualPause.sentence : usualPause.clause) });
        skipped += end.sentence ? against.sentence : against.clause;
        if (skipped > 8 * against.sentence) break;
      }
    }
    this.#ways = next.sort((a, b) => a.cost - b.cost).slice(0, keptWays);
  }

  /** Keeps what is known of the voice for its next answer: best if this one was heard to its end. */
  #remember(whole: boolean): void {
    const known = this.#ways[0];
    if (whole && this.#heard && this.#said.letters > 0) this.#voice = arrive({ letters: 0, voiced: 0, ...this.#voice, cost: 0 }, this.#said.letters, this.#voiced);
    else if (known) this.#voice = known;
    this.#voice = { pace: this.#voice.pace, sure: this.#voice.sure };
  }

  /** How many letters have been said. */
  #letters(): number {
    const way = this.#ways[0];
    if (!way || this.#voiced === 0) return 0;
    if (this.#pausing && way.voiced === this.#voiced) return way.letters;
    const said = way.letters + Math.exp(way.pace) * (this.#voiced - way.voiced + leadSeconds);
    const end = this.#said.ends.find(({ letters, sentence }: End) => sentence && letters > way.letters);
    return end && said > end.letters && said < end.letters + patience * (end.letters - way.letters) ? end.letters : said;
  }

  /** What is not said to its end of the captions. */
  of(captions: Caption[]): Spoken {
    const spoken: Record<string, number> = {};
    const playing: { itemId: string; text: string }[] = [];
    for (const { itemId, text } of captions) {
      const response = this.#responses.get(itemId);
      if (!this.#reports || response === undefined || this.#over.has(response)) continue;
      if (response === this.#playing) playing.push({ itemId, text });
      else spoken[itemId] = 0; // it waits for its turn
    }
    this.#said.learn(playing.map(({ text }) => text).join('\n'));
    this.#lit = Math.max(this.#lit, this.#said.place(this.#letters()));
    let left = this.#lit;
    for (const { itemId, text } of playing) {
      if (left < text.length) spoken[itemId] = Math.max(0, left);
      left -= text.length + 1;
    }
    return spoken;
  }
}

/** The way on to so many letters in so many seconds of voice. */
function arrive(way: Way, letters: number, voiced: number): Way {
  const variance = uneven ** 2 / (letters - way.letters);
  const off = Math.log((letters - way.letters) / (voiced - way.voiced)) - way.pace;
  const expected = variance + 1 / way.sure;
  const sure = way.sure + 1 / variance;
  return { letters, voiced, pace: way.pace + off / variance / sure, sure: Math.min(sure, surest), cost: way.cost + (off ** 2 / expected + Math.log(expected)) / 2 };
}
