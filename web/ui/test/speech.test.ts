import { describe, expect, it } from 'vitest';
import { Speech } from '../src/call/speech';
import type { Caption } from '../src/message/live';

const first = 'The call waits for you. For half a minute the server keeps the line, and its tools go on.';
const second = 'Then your page finds a new path by itself.';

/** Plays sentences as a voice does that says so many letters a second and pauses after each clause; returns the largest error in seconds. */
function play(speech: Speech, texts: string[], pace: number, response: string, every = 100): number {
  const captions: Caption[] = texts.map((text, at) => ({ itemId: `${response} ${at}`, role: 'assistant', text, failed: false }));
  texts.forEach((_, at) => speech.take({ type: 'response.output_audio_transcript.delta', item_id: `${response} ${at}`, response_id: response }, 0));
  speech.take({ type: 'output_audio_buffer.started', response_id: response }, 0);
  const whole = texts.join('\n');
  let [now, said, pause, worst] = [0, 0, 300, 0];
  while (said < whole.length) {
    now += 100;
    const speaks = pause <= 0;
    if (speaks) {
      const before = said;
      said = Math.min(whole.length, said + pace / 10);
      if (/[.,]/.test(whole.slice(Math.floor(before), Math.floor(said)))) pause = 400;
    } else pause -= 100;
    if (now % every === 0) speech.hear(speaks ? 0.6 : 0, now);
    const spoken = speech.of(captions);
    const lit = texts.reduce((sum, text, at) => sum + (spoken[`${response} ${at}`] ?? text.length), 0);
    worst = Math.max(worst, Math.abs(lit - said) / pace);
  }
  speech.take({ type: 'output_audio_buffer.stopped', response_id: response }, now);
  expect(speech.of(captions)).toEqual({});
  return worst;
}

describe('how far an answer was spoken', () => {
  it.each([13, 16, 18, 20, 22])('is known to a second, and better once the voice is known: %i letters a second', (pace) => {
    const speech = new Speech();
    expect(play(speech, [first, second], pace, 'r1')).toBeLessThan(1);
    expect(play(speech, ['One more sentence of this voice, which is known by now, and no longer a guess.'], pace, 'r2')).toBeLessThan(0.5);
  });

  it('is known where the page is too busy to listen often', () => {
    expect(play(new Speech(), [first, second], 16, 'r1', 300)).toBeLessThan(1);
  });

  it('is all of it once it was played, and nothing while another is', () => {
    const speech = new Speech();
    const captions: Caption[] = ['a', 'b'].map((itemId) => ({ itemId, role: 'assistant', text: 'Ten letters', failed: false }));
    speech.take({ type: 'response.output_audio_transcript.delta', item_id: 'a', response_id: 'r1' }, 0);
    expect(speech.of(captions)).toEqual({}); // nobody has said that anything plays
    speech.take({ type: 'output_audio_buffer.started', response_id: 'r1' }, 0);
    speech.take({ type: 'response.output_audio_transcript.done', item_id: 'b', response_id: 'r2' }, 0);
    expect(speech.of(captions)).toEqual({ a: 0, b: 0 });
    speech.take({ type: 'output_audio_buffer.stopped', response_id: 'r1' }, 0);
    expect(speech.of(captions)).toEqual({ b: 0 });
    speech.take({ type: 'bridge.upstream.renewed' }, 0);
    expect(speech.of(captions)).toEqual({});
  });

  it('goes on where the browser measures no sound', () => {
    const speech = new Speech();
    const captions: Caption[] = [{ itemId: 'a', role: 'assistant', text: first, failed: false }];
    speech.take({ type: 'response.output_audio_transcript.delta', item_id: 'a', response_id: 'r' }, 0);
    speech.take({ type: 'output_audio_buffer.started', response_id: 'r' }, 0);
    for (let now = 100; now <= 4000; now += 100) speech.hear(0, now);
    expect(speech.of(captions).a).toBeGreaterThan(20);
  });
});
