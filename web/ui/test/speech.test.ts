import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { lettersOf, Said } from '../src/call/letters';
import { Speech } from '../src/call/speech';
import type { Caption } from '../src/message/live';

/** Answers, and how many characters a second people say without pauses (Coupé et al., Science Advances 5, 2019; usual rates of captions). */
const languages: Record<string, [number, string]> = {
  English: [17, 'The call waits for you. For half a minute the server keeps the line, and its tools go on. Then your page finds a new path by itself.'],
  German: [18, 'Der Anruf wartet auf dich. Eine halbe Minute lang hält der Server die Leitung, und seine Werkzeuge laufen weiter. Danach findet deine Seite von selbst einen neuen Weg.'],
  French: [19, "L'appel vous attend. Pendant une demi-minute, le serveur garde la ligne et ses outils continuent. Ensuite, votre page trouve toute seule un nouveau chemin."],
  Chinese: [4.4, '电话会等你。服务器会保持线路半分钟，它的工具继续工作。然后你的页面会自己找到一条新的路。'],
  Japanese: [7.5, '電話はあなたを待っています。サーバーは三十秒回線を保ち、道具も動き続けます。その後ページは自分で新しい道を見つけます。'],
  Korean: [7, '전화는 당신을 기다립니다. 서버는 삼십 초 동안 회선을 유지하고, 도구들은 계속 일합니다. 그다음 페이지가 스스로 새 길을 찾습니다.'],
  Arabic: [11.5, 'المكالمة تنتظرك. يحتفظ الخادم بالخط نصف دقيقة، وتستمر أدواته في العمل. بعد ذلك تجد صفحتك طريقا جديدا بنفسها.'],
  Hindi: [14, 'कॉल आपका इंतज़ार करती है। सर्वर आधे मिनट तक लाइन बनाए रखता है, और उसके औज़ार चलते रहते हैं। फिर आपका पेज खुद एक नया रास्ता खोज लेता है।'],
  Thai: [12, 'สายนี้รอคุณอยู่ เซิร์ฟเวอร์เก็บสายไว้ครึ่งนาที และเครื่องมือของมันยังทำงานต่อไป จากนั้นหน้าของคุณจะหาทางใหม่เอง'],
  Russian: [17, 'Звонок ждёт вас. Полминуты сервер держит линию, и его инструменты продолжают работать. Затем ваша страница сама находит новый путь.'],
};

const stepMs = 20;
const captionsOf = (texts: string[], response: string): Caption[] => texts.map((text, at) => ({ itemId: `${response} ${at}`, role: 'assistant', text, failed: false }));

/** Begins an answer. */
function begin(speech: Speech, captions: Caption[], response: string): void {
  for (const { itemId } of captions) speech.take({ type: 'response.output_audio_transcript.delta', item_id: itemId, response_id: response }, 0);
  speech.take({ type: 'output_audio_buffer.started', response_id: response }, 0);
}

/**
 * Plays texts as a voice does that says so many characters a second, is loudest in the middle of each, closes its lips now and then, and
 * pauses longer after a sentence than after a clause. Returns how many seconds each word is lit too late, or too early if negative.
 */
function play(speech: Speech, texts: string[], pace: number, response: string, every = 100): number[] {
  const captions = captionsOf(texts, response);
  begin(speech, captions, response);
  const whole = texts.join('\n');
  const words = [...new Intl.Segmenter(undefined, { granularity: 'word' }).segment(whole)].filter(({ isWordLike }) => isWordLike);
  const said: number[] = []; // when each word begins
  const lit: number[] = [];
  let [now, at, pause, most, levels] = [0, 0, 300, 0, [] as number[]];
  while (at < whole.length) {
    now += stepMs;
    const before = at;
    if (pause > 0) pause -= stepMs;
    else at = Math.min(whole.length, at + (pace * stepMs) / 1000);
    const loud = at > before && now % 700 >= 60;
    levels.push(loud ? 0.4 + 0.3 * Math.sin(at * Math.PI) ** 2 : 0.02);
    const passed = whole.slice(Math.floor(before), Math.floor(at));
    if (/[.。।\n]/.test(passed)) pause = 360;
    else if (/[,،，、]/.test(passed) || (passed === ' ' && /\p{sc=Thai} $/u.test(whole.slice(0, Math.floor(at))))) pause = 180;
    words.forEach(({ index }, n) => at > index && (said[n] ??= now));
    if (now % every !== 0) continue;
    speech.hear((count) => levels.slice(-count), now);
    levels = levels.slice(-17);
    const spoken = speech.of(captions);
    const letters = texts.reduce((sum, text, n) => sum + (spoken[`${response} ${n}`] ?? text.length + 1), 0);
    words.forEach(({ index }, n) => letters > index && (lit[n] ??= now));
    expect(letters).toBeGreaterThanOrEqual(most);
    most = letters;
  }
  speech.take({ type: 'output_audio_buffer.stopped', response_id: response }, now);
  expect(speech.of(captions)).toEqual({});
  return words.map((_, n) => ((lit[n] ?? now) - (said[n] ?? now)) / 1000);
}

const near = (errors: number[]) => errors.filter((error) => Math.abs(error) <= 0.5).length / errors.length;

describe('how far an answer was spoken', () => {
  const cases = Object.entries(languages).flatMap(([language, [pace, text]]) => [0.85, 1, 1.2].map((speed) => ({ language, pace, text, speed })));
  it.each(cases)('is known to half a second for nine words of ten: $language at $speed', ({ pace, text, speed }) => {
    expect(near(play(new Speech(), [text], pace * speed, 'r1'))).toBeGreaterThanOrEqual(0.9);
  });

  it.each([9, 11, 26, 30])('is known better once the voice is known: %i letters a second', (pace) => {
    const speech = new Speech();
    const [, text] = languages.English!;
    play(speech, [text], pace, 'r1');
    expect(near(play(speech, ['One more sentence of this voice, which is known by now, and no longer a guess.', text], pace, 'r2'))).toBe(1);
  });

  it('is known where the page is too busy to listen often', () => {
    const [pace, text] = languages.English!;
    expect(near(play(new Speech(), [text], pace, 'r1', 300))).toBeGreaterThanOrEqual(0.9);
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

  it.each([0, 5])('goes on where the browser measures no sound, or none of it: %i pieces', (count) => {
    const speech = new Speech();
    const captions = captionsOf([languages.English![1]], 'r');
    begin(speech, captions, 'r');
    for (let now = 100; now <= 4000; now += 100) speech.hear(() => Array<number>(count).fill(0), now);
    expect(speech.of(captions)['r 0']).toBeGreaterThan(20);
  });
});

describe('what a voice says', () => {
  it.each(JSON.parse(readFileSync('test/fixtures/letters.json', 'utf8')) as { text: string; letters: number }[])('takes as long as the server estimates: $text', ({ text, letters }) => {
    expect([...text].reduce((sum, character) => sum + lettersOf(character), 0)).toBeCloseTo(letters);
  });

  it.each([
    ['It costs 3.50 now, or 4:1. “Really?” Yes…', [', ', '. ', '?”', '…']],
    ['电话。等，你', ['。', '，']],
    ['نعم، لا؟ حسنا', ['، ', '؟ ']],
    ['हाँ। में है', ['। ']],
    ['ไป แล้ว กลับ', [' ', ' ']],
  ] as const)('pauses where a clause ends: %s', (text, marks) => {
    const said = new Said();
    said.learn(text.slice(0, 7));
    said.learn(text);
    const ends = said.ends.map(({ letters }) => said.place(letters));
    let from = 0;
    expect(ends).toEqual(marks.map((mark) => (from = text.indexOf(mark, from) + 1)));
  });
});
