import { readFileSync } from 'node:fs';

/** The paths at which a language's file is not as the English one: a key is missing, is one too many, or is filled with something else. */
export function differences(english: unknown, other: unknown, path = ''): string[] {
  if (english === null) return typeof other === 'string' || other === null ? [] : [path]; // the server says it in English
  if (typeof english !== typeof other || Array.isArray(english) !== Array.isArray(other)) return [path];
  if (typeof english !== 'object' || typeof other !== 'object' || other === null) return [];
  const [left, right] = [new Map(Object.entries(english)), new Map(Object.entries(other))];
  return [...new Set([...left.keys(), ...right.keys()])].flatMap((key) => differences(left.get(key), right.get(key), path === '' ? key : `${path}.${key}`));
}

/** Takes a part out of a language's file, as each is loaded with what it is for. */
export const languages = {
  name: 'languages',
  enforce: 'pre' as const,
  transform(code: string, id: string) {
    const [, tag, part] = /\/words\/(\w+)\.json\?(?:import&)?(\w+)$/.exec(id) ?? [];
    if (!part) return undefined;
    const file: Record<string, unknown> = JSON.parse(code);
    const odd = differences(JSON.parse(readFileSync(new URL('src/words/en.json', import.meta.url), 'utf8')), file);
    if (odd.length > 0) throw new Error(`${tag}.json is not as en.json at ${odd.join(', ')}`);
    return { code: `export default ${JSON.stringify(file[part], (_, text: unknown) => text ?? undefined)}`, map: null, moduleType: 'js' };
  },
};
