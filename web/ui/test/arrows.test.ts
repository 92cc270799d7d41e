import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

// The folders of the page, from the ground up: a file imports files of its own folder or of floors
// further down, never up and never beside.
const floors: string[][] = [
  ['base'],
  ['words'],
  ['charts', 'message', 'device'],
  ['api'],
  ['link'],
  ['thread', 'call'],
  ['page'],
  ['view/parts'],
  ['view/tools'],
  ['view/thread', 'view/call', 'view/side'],
  ['view'],
  ['.'],
];

const source = fileURLToPath(new URL('../src/', import.meta.url));
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => /\.(ts|svelte)$/.test(name));
const folderOf = (file: string) => dirname(file).replaceAll('\\', '/');
const floorOf = (folder: string) => floors.findIndex((floor) => floor.includes(folder));

function importsOf(file: string): string[] {
  const text = readFileSync(join(source, file), 'utf8');
  return [...text.matchAll(/(?:from|import\()\s*'(\.[^']+)'/g)]
    .map(([, path]) => normalize(join(dirname(file), path ?? '')))
    .filter((path) => !path.startsWith('..'));
}

describe('the folders of the page', () => {
  it('all have a floor', () => {
    expect([...new Set(files.map(folderOf))].filter((folder) => floorOf(folder) < 0)).toEqual([]);
  });

  it('import downwards only', () => {
    const wrong = files.flatMap((file) =>
      importsOf(file)
        .filter((path) => folderOf(path) !== folderOf(file) && floorOf(folderOf(path)) >= floorOf(folderOf(file)))
        .map((path) => `${file} → ${path}`),
    );
    expect(wrong).toEqual([]);
  });

  it('hand their state on and keep none of it at the top', () => {
    // Components get the page's state from their parents or their context.
    const wrong = files.filter((file) => file.endsWith('.svelte') && /new App\(/.test(readFileSync(join(source, file), 'utf8')));
    expect(wrong).toEqual([]);
  });

  it('write colours once', () => {
    const colour = /#[0-9a-f]{3,8}\b|\brgba?\(/i;
    const wrong = files.filter((file) => file.endsWith('.svelte') && colour.test(/<style>[\s\S]*<\/style>/.exec(readFileSync(join(source, file), 'utf8'))?.[0] ?? ''));
    expect(wrong).toEqual([]);
  });

  it('speak in the words of words/ only', () => {
    // Text between tags, and the attributes that people read.
    const wrong = files.filter((file) => file.endsWith('.svelte')).flatMap((file) => {
      const text = readFileSync(join(source, file), 'utf8').replace(/<(script|style)[\s\S]*?<\/\1>/g, '').replace(/<!--[\s\S]*?-->/g, '');
      const spoken = [...text.matchAll(/\s(?:aria-label|title|placeholder|alt)="([A-Za-z][^"{]*)"/g), ...text.matchAll(/>\s*([A-Z][a-z]+(?: [a-z]+)+)[^<{]*</g)];
      return spoken.map(([, words]) => `${file}: ${words}`);
    });
    expect(wrong).toEqual([]);
  });
});
