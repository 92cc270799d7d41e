// A text is written in the form of ICU messages: {name} is filled in, {n, plural, =0 {…} one {…} other {…}} goes by the
// language's own forms of numbers, and {what, select, camera {…} other {…}} by a word. Its key says what it is filled with.

type Value = string | number | boolean;
type Values<Names extends string> = Names extends `${string}, ${infer Rest}` ? [Value, ...Values<Rest>] : [Value];
type NameOf<Key> = Key extends `${infer Name}(${string})` ? Name : Key;

/** The texts of a file: what is to be filled in is a function, of the values that its key names. */
export type Texts<File> = {
  readonly [Key in keyof File as NameOf<Key>]: Key extends `${string}(${infer Names})`
    ? (...values: Values<Names>) => string
    : File[Key] extends string | string[] | null
      ? File[Key]
      : Texts<File[Key]>;
};

const hole = /\{(\w+)(?:, (plural|select),((?: =?[\w-]+ \{(?:[^{}]|\{\w+\})*\})+))?\}/g;
const choice = / (=?[\w-]+) \{((?:[^{}]|\{\w+\})*)\}/g;

function filled(text: string, values: Record<string, Value>, language: string): string {
  return text.replace(hole, (_, name: string, kind?: string, choices = '') => {
    const value = values[name] ?? `{${name}}`;
    if (!kind) return String(value);
    const known = new Map([...String(choices).matchAll(choice)].map(([, key = '', words = '']) => [key, words]));
    const form = kind === 'plural' ? new Intl.PluralRules(language).select(Number(value)) : String(value);
    return filled(known.get(`=${value}`) ?? known.get(form) ?? known.get('other') ?? '', values, language);
  });
}

/** Makes the texts of a file in a language ready to use. */
export function textsOf<File>(file: File, language: string): Texts<File> {
  const texts: Record<string, unknown> = {};
  for (const [key, text] of Object.entries(file as object)) {
    const [name = '', names] = key.split(/[()]/);
    const order = names?.split(', ') ?? [];
    if (names !== undefined) texts[name] = (...values: Value[]) => filled(text, Object.fromEntries(order.map((each, at) => [each, values[at] ?? ''])), language);
    else texts[name] = typeof text === 'object' && text !== null && !Array.isArray(text) ? textsOf(text, language) : text;
  }
  return texts as Texts<File>;
}

/** The text of a key that comes from elsewhere; undefined if the page has none. */
export function textIn(texts: object, key: string): string | undefined {
  const text: unknown = Object.hasOwn(texts, key) ? texts[key as keyof typeof texts] : undefined;
  return typeof text === 'string' ? text : undefined;
}
