/**
 * Of which a character does not take as long to say as a Latin letter, and how many letters it takes: a word, a syllable, or
 * consonants without their vowels. The server estimates by the same table what was heard of an answer (bridge/internal/session).
 */
const scripts: [RegExp, number][] = [
  [/[\p{sc=Hani}\p{sc=Yiii}]/u, 4.2],
  [/[\p{sc=Hang}\p{sc=Ethi}\p{sc=Cans}\p{sc=Cher}\p{sc=Vaii}]/u, 2.4],
  [/[\p{sc=Hira}\p{sc=Kana}\p{sc=Bopo}]/u, 1.9],
  [/[\p{sc=Zinh}\p{Mn}\p{Cf}\p{So}]/u, 0],
  [/[\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/u, 1.8],
  [/[\p{sc=Arab}\p{sc=Hebr}\p{sc=Syrc}]/u, 1.4],
  [/[\p{sc=Deva}\p{sc=Beng}\p{sc=Gujr}\p{sc=Guru}\p{sc=Taml}\p{sc=Telu}\p{sc=Knda}\p{sc=Mlym}]/u, 1.2],
  [/\p{Nd}/u, 3],
];

/** How many Latin letters take as long to say as a character. */
export function lettersOf(character: string): number {
  if (/^[^\d\u0080-\uffff]/.test(character)) return 1;
  return scripts.find(([of]) => of.test(character))?.[1] ?? 1;
}

/** Where a voice may pause: at the marks of any script, and at spaces where words have none. */
const pause = /[.,:;!?…—–](?=[\s"'’”»)]|$)|(?![\0-\x7f…—–])\p{Term}|(?<=[\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]) |\n/gu;
const sentence = /[\p{STerm}…\n]/u;

/** Where a clause ends, in letters from the beginning, and whether a sentence does. */
export interface End {
  letters: number;
  sentence: boolean;
}

/** A text as a voice says it. It grows while it is said. */
export class Said {
  text = '';
  ends: End[] = [];
  /** How many letters there are before each place. */
  #before = [0];

  learn(text: string): void {
    if (text === this.text) return;
    if (!text.startsWith(this.text)) [this.text, this.#before] = ['', [0]];
    let sum = this.letters;
    for (const character of text.slice(this.text.length)) {
      sum += lettersOf(character);
      for (let unit = 0; unit < character.length; unit++) this.#before.push(sum);
    }
    this.text = text;
    this.ends = [...text.matchAll(pause)].map(({ index, 0: mark }) => ({ letters: this.#before[index + mark.length] ?? sum, sentence: sentence.test(mark) }));
  }

  /** How many letters there are. */
  get letters(): number {
    return this.#before.at(-1) ?? 0;
  }

  /** Where the character ends that a voice says when it has come so many letters far. */
  place(letters: number): number {
    let [low, high] = [0, this.text.length];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if ((this.#before[middle] ?? 0) < letters) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
