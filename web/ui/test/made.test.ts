import { expect, it } from 'vitest';
import { readMessage } from '../src/message/message';
import { madeIn } from '../src/view/call/made';

const message = (id: string, parts: object[], metadata: object = { call_id: 'c' }) => readMessage({ id, role: 'assistant', parts, metadata })!;
const tool = (output: unknown, state = 'output-available') => ({ type: 'tool-create_bar_chart', toolCallId: 't', state, input: {}, output });
const chart = { chartType: 'bar', title: 'Sales', config: {}, data: { series: [{ name: 'A', data: [{ x: 'Q1', y: 1 }] }] } };
const picture = { type: 'file', mediaType: 'image/png', url: '/api/threads/t/images/i' };

it('the stage shows what was made last in its call', () => {
  const made = (...messages: ReturnType<typeof message>[]) => madeIn(messages, 'c')?.id;
  expect(madeIn([message('m', [picture])], 'c')).toMatchObject({ id: 'm 0', chart: null, url: picture.url });
  expect(made(message('m', [picture]), message('n', [{ type: 'text', text: 'Here.' }]))).toBe('m 0');
  expect(made(message('m', [picture]), message('n', [tool('no chart')]))).toBe('m 0');
  expect(made(message('m', [tool(chart, 'input-available')]))).toBeUndefined();
  expect(made(message('m', [picture], { call_id: 'other' }))).toBeUndefined();
  expect(made(message('m', [picture], {}))).toBe('m 0'); // typed into the call
  expect(madeIn([message('m', [picture])], '')).toBeNull();
  expect(made(message('m', [picture]), ...Array.from({ length: 12 }, (_, at) => message(`n${at}`, [])))).toBeUndefined();
});
