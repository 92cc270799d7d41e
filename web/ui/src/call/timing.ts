// How long the answers of a call took, as this page met them.

/** One answer: milliseconds from the end of the question. */
export interface AnswerTime {
  /** Until the model began to answer. */
  begun: number;
  /** Until its first words. */
  words: number;
  /** Until it was heard. */
  heard: number;
}

export interface Timing {
  /** When the question that waits for its answer ended; 0 when none does. */
  asked: number;
  begun: number;
  words: number;
  answers: AnswerTime[];
}

export const noTiming: Timing = { asked: 0, begun: 0, words: 0, answers: [] };

const kept = 50;

/** Takes in that an event of this type came. */
export function timed(timing: Timing, type: string, now: number): Timing {
  switch (type) {
    case 'input_audio_buffer.speech_stopped':
      return { ...timing, asked: now, begun: 0, words: 0 };
    case 'input_audio_buffer.committed':
      return timing.asked > 0 ? timing : { ...timing, asked: now, begun: 0, words: 0 };
    case 'input_audio_buffer.speech_started':
      return timing.asked > 0 ? { ...timing, asked: 0 } : timing;
    case 'response.created':
      return timing.asked > 0 && timing.begun === 0 ? { ...timing, begun: now } : timing;
    case 'response.output_audio_transcript.delta':
    case 'response.output_text.delta':
      return timing.asked > 0 && timing.words === 0 ? { ...timing, words: now } : timing;
    case 'output_audio_buffer.started':
      return timing.asked > 0 ? answered(timing, now) : timing;
    default:
      return timing;
  }
}

function answered({ asked, begun, words, answers }: Timing, now: number): Timing {
  const since = (at: number) => (at > 0 ? Math.max(0, at - asked) : 0);
  const answer = { begun: since(begun), words: since(words || now), heard: since(now) };
  return { ...noTiming, answers: [...answers, answer].slice(-kept) };
}

/** The middle of some numbers; undefined when there are none. */
export function median(values: number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
