import { describe, expect, it } from 'vitest';
import { csvOf, tableOfChart } from '../src/charts/data';
import { readChart, type Chart } from '../src/charts/output';
import { finishedSentences, mediaOf, readingOf } from '../src/message/content';
import { tokensOf } from '../src/view/parts/syntax';
import { linked, outcomeOf } from '../src/view/tools/outcome';
import type { ToolPart } from '../src/message/message';
import { readFileSync } from 'node:fs';

describe('a tool output', () => {
  it.each([
    ['text', 'Hi\nthere', 'Hi\nthere', undefined],
    ['what a program printed', { stdout: 'a\nb\n', exit_code: 0 }, 'a\nb', { exit_code: 0 }],
    ['JSON in text', '{"stdout":"x","stderr":""}', 'x', undefined],
    ['lines', { logs: ['1', '2'] }, '1\n2', undefined],
    ['a list', [1], '', [1]],
    ['nothing', undefined, '', undefined],
  ])('is read: %s', (_, output, printed, rest) => {
    expect(readingOf(output)).toEqual({ printed, rest });
  });
});

describe('what an MCP tool returns', () => {
  const image = { type: 'image', mimeType: 'image/png', image_id: 'i', url: '/api/threads/t/images/i' };
  const sound = { type: 'resource', resource: { uri: 'file:///a.wav', mimeType: 'audio/wav', url: '/api/threads/t/images/s' } };
  const foreign = { type: 'image', mimeType: 'image/png', url: 'https://spy.example/x.png' };

  it('is text to read and media to show', () => {
    const output = { content: [{ type: 'text', text: 'Look:' }, image, sound, foreign], isError: false };
    expect(readingOf(output)).toEqual({ printed: 'Look:', rest: { content: [foreign], isError: false } });
    expect(mediaOf(output)).toEqual([
      { kind: 'image', url: image.url },
      { kind: 'audio', url: '/api/threads/t/images/s' },
    ]);
  });

  it.each([undefined, 'text', { content: 'text' }, { content: [foreign] }, { content: [{ ...image, url: 'javascript:alert(1)' }] }, { content: [{ ...image, mimeType: 'text/html' }] }])(
    'shows nothing else: %j',
    (output) => {
      expect(mediaOf(output)).toEqual([]);
    },
  );
});

describe('sentences', () => {
  it('are said when they are finished', () => {
    expect(finishedSentences('One. Two is', 0)).toEqual({ said: 'One.', end: 4 });
    expect(finishedSentences('One. Two is here! And', 4)).toEqual({ said: 'Two is here!', end: 17 });
    expect(finishedSentences('It costs 3.5 euros', 0)).toEqual({ said: '', end: 0 });
    expect(finishedSentences('你好。「我是助手。」你', 0)).toEqual({ said: '你好。「我是助手。」', end: 10 });
  });
});

describe('the outcome of a tool', () => {
  const part = (state: ToolPart['state'], errorText = ''): ToolPart => ({ kind: 'tool', name: 't', toolCallId: '1', state, input: {}, output: {}, errorText });
  const run = { id: '1', name: 't', executor: 'app', message: 'Stopped', state: 'cancelled' as const };
  it.each([
    ['a refusal is not a failure', part('failed', 'The user refused this tool call. Do not try it again unless the user asks for it.'), undefined, 'refused', 'You did not allow this.'],
    ['nor is a question that was not answered', part('failed', 'The user was asked to approve this tool call and did not answer in time.'), undefined, 'refused', 'The question was not answered in time.'],
    ['nor one that nobody can answer any more', part('failed', 'The turn ended before the user decided whether this tool may run.'), undefined, 'refused', 'The answer ended before you decided.'],
    ['a failure has its reason', part('failed', 'No network'), undefined, 'failed', 'No network'],
    ['a failure may have none', part('failed'), undefined, 'failed', 'It gave no reason.'],
    ['the call knows first', part('running'), run, 'cancelled', 'Stopped'],
    ['it is done', part('done'), run, 'done', ''],
  ] as const)('%s', (_, tool, known, state, problem) => {
    expect(outcomeOf(tool, known, false)).toMatchObject({ state, problem });
  });
});

describe('what a server says of a failure', () => {
  it.each([
    ['Agree ({"url":"https://h.org/c?a=1&b=2"}).', ['https://h.org/c?a=1&b=2']],
    ['See http://h.org/a, HTTPS://H.org/b; or (https://h.org/c).', ['http://h.org/a', 'HTTPS://H.org/b', 'https://h.org/c']],
    ['javascript:alert(1) data:text/html,x xhttps://h.org https:// http://[', []],
    ['https://h.org/"><img src=x>', ['https://h.org/']],
  ])('has links: %s', (text, links) => {
    expect(linked(text).flatMap(({ href }) => href ?? [])).toEqual(links);
    expect(linked(text).map((piece) => piece.text).join('')).toBe(text);
  });
});

describe('the data of a chart', () => {
  const charts = (JSON.parse(readFileSync('test/fixtures/charts.json', 'utf8')) as unknown[]).map((output) => readChart(output) as Chart);
  it.each(charts.filter(({ kind }) => kind !== 'ban').map((chart): [string, Chart] => [chart.kind, chart]))('is a table: %s', (_, chart) => {
    const table = tableOfChart(chart);
    expect(table?.rows.length).toBeGreaterThan(0);
    expect(table?.columns.length).toBeGreaterThan(0);
    expect(table?.rows.flat().join()).not.toMatch(/[{}[\]]|undefined/);
  });
  it('is CSV that spreadsheets do not run', () => {
    const table = { columns: [{ key: 'a', label: 'A, b', numeric: false }, { key: 'n', label: 'N', numeric: true }], rows: [], values: [['=1+1', -2], ['say "hi"', 3.5]] };
    expect(csvOf(table)).toBe('"A, b",N\r\n\'=1+1,-2\r\n"say ""hi""",3.5\r\n');
  });
});

describe('programs', () => {
  it('have coloured words', () => {
    const code = 'for x in [1]: # loop\n  print("a")';
    expect(tokensOf(code).map(({ kind, start, end }) => [kind, code.slice(start, end)])).toEqual([
      ['keyword', 'for'], ['keyword', 'in'], ['number', '1'], ['comment', '# loop'], ['string', '"a"'],
    ]);
  });
});
