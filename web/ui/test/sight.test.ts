import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { runClientTool, toolsOf } from '../src/call/clienttools';
import { reduce } from '../src/call/reduce';
import { Sight } from '../src/call/sight.svelte';
import { idleCall, type CallState } from '../src/call/state';
import { ToolRuns } from '../src/call/toolruns';
import type { Subject, View } from '../src/device/pictures';

type Sent = { type: string; event_id?: string; item: { id?: string; type: string; output?: string; content?: { type: string; image_url: string }[] } };

/** A call with a model that may look, and a device whose pictures are numbered. */
class Bench {
  now = 0;
  readonly sent: Sent[] = [];
  readonly opened: { subject: Subject; view: View; closed: boolean }[] = [];
  readonly problems: string[] = [];
  connected = true;
  fails: Error | undefined;
  /** What the device waits for before it opens. */
  ready: Promise<void> = Promise.resolve();
  readonly sight = new Sight(
    ['camera', 'screen'],
    {
      open: async (subject) => {
        await this.ready;
        if (this.fails) throw this.fails;
        const one = { subject, closed: false, view: {} as View };
        const picture = () => `data:image/jpeg;base64,${subject}${this.opened.length}`;
        one.view = { picture, photo: async () => new Blob([picture()]), onended: () => undefined, close: () => (one.closed = true) };
        this.opened.push(one);
        return one.view;
      },
      send: (event) => this.connected && (this.sent.push(event as Sent), true),
      most: () => 1000,
      onProblem: (code) => this.problems.push(code),
    },
    () => this.now,
  );
  readonly runs = new ToolRuns({ setTheme: () => undefined }, (event) => this.sent.push(event as Sent));
  #state: CallState = { ...idleCall, phase: 'live' };

  constructor() {
    this.runs.declared(this.sight.tools);
  }

  /** What the page hears from the server. */
  async hears(...events: Record<string, unknown>[]): Promise<void> {
    for (const event of events) {
      this.#state = reduce(this.#state, event, 0);
      this.runs.take(event, this.#state);
      this.sight.take(event);
    }
    await this.settled();
  }

  async settled(): Promise<void> {
    for (let i = 0; i < 20; i++) await Promise.resolve();
  }

  /** The model calls the tool. */
  async looks(id: string): Promise<void> {
    await this.hears(
      { type: 'response.output_item.done', item: { type: 'function_call', status: 'completed', call_id: id, name: 'look', arguments: '{}' } },
      { type: 'bridge.tool.started', tool_call_id: id, name: 'look', executor: 'client' },
    );
  }

  async answers(subject: Subject | 'no'): Promise<void> {
    this.sight.answer(subject);
    await this.settled();
  }

  /** The model has the last picture. */
  async shown(): Promise<void> {
    await this.hears({ type: 'conversation.item.added', item: { id: this.sent.at(-1)?.event_id } });
  }

  /** What was sent: pictures, and the outputs of calls. */
  get story(): string[] {
    return this.sent.map(({ item }) => item.output ?? item.content?.map((c) => c.image_url.replace(/.*,/, '')).join() ?? '?');
  }

  get last(): string {
    return this.story.at(-1) ?? '';
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('a model that looks', () => {
  it('has the picture before its call is answered', async () => {
    const b = new Bench();
    await b.looks('1');
    expect([b.sight.asking, b.sent, b.opened]).toEqual([true, [], []]);
    await b.answers('camera');
    expect([b.sight.asking, b.sight.subject, b.story]).toEqual([false, 'camera', ['camera1']]);
    expect(b.sent[0]).toMatchObject({ type: 'conversation.item.create', item: { id: b.sent[0]?.event_id, type: 'message', role: 'user', content: [{ type: 'input_image' }] } });
    await b.hears({ type: 'conversation.item.added', item: { id: 'another' } });
    expect(b.story).toHaveLength(1);
    await b.shown();
    expect(b.sent[1]?.item).toMatchObject({ type: 'function_call_output', call_id: '1' });
    expect(b.last).toContain('"of":"camera"');
  });

  it('asks the user once in a call, and opens the camera for each picture', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.answers('camera');
    await b.shown();
    b.now = 2000;
    await b.looks('2');
    expect([b.sight.asking, b.last, b.opened.map(({ closed }) => closed)]).toEqual([false, 'camera2', [true, true]]);
  });

  it('is refused a second picture within two seconds, and beside one that is being taken', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.looks('2');
    expect(b.story).toEqual([expect.stringMatching(/^Error: only one picture can be taken in two seconds/)]);
    await b.answers('camera');
    await b.shown();
    b.now = 1999;
    await b.looks('3');
    expect(b.last).toMatch(/^Error: only one picture/);
    expect(b.opened).toHaveLength(1);
    b.now = 2000;
    await b.looks('4');
    expect(b.last).toBe('camera2');
  });

  it('is refused, and does not ask again, when the user does not want it', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.answers('no');
    await b.looks('2');
    expect(b.story).toEqual([expect.stringContaining('does not want'), expect.stringContaining('does not want')]);
    expect([b.sight.asking, b.opened]).toEqual([false, []]);
  });

  it('is told when the user says nothing, and may ask again', async () => {
    const b = new Bench();
    await b.looks('1');
    await vi.advanceTimersByTimeAsync(25_000);
    expect([b.sight.asking, b.last]).toEqual([false, expect.stringMatching(/^Error: the user has not said yet/)]);
    b.sight.answer('camera');
    await b.looks('2');
    expect([b.sight.asking, b.opened]).toEqual([true, []]);
  });

  it('gets nothing for a call that is over by then', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.hears({ type: 'bridge.tool.failed', tool_call_id: '1', error: 'too late' });
    expect([b.sight.asking, b.sent]).toEqual([false, []]);
    // The user was choosing a screen when the time was up: it is allowed, but not shown unasked.
    let ready = () => {};
    b.ready = new Promise((resolve) => (ready = resolve));
    await b.looks('2');
    await b.answers('screen');
    await b.hears({ type: 'bridge.tool.failed', tool_call_id: '2', error: 'too late' });
    ready();
    await b.settled();
    expect([b.sight.subject, b.sent]).toEqual(['screen', []]);
  });

  it('sees the shared screen until the user ends that, here or in the browser', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.answers('screen');
    await b.shown();
    b.now = 2000;
    await b.looks('2');
    expect([b.story.at(-1), b.opened.length, b.opened[0]?.closed]).toEqual(['screen1', 1, false]);
    await b.shown();
    b.opened[0]?.view.onended();
    expect([b.sight.subject, b.opened[0]?.closed]).toEqual([null, true]);
    b.now = 4000;
    await b.looks('3');
    expect(b.sight.asking).toBe(true);
    await b.answers('screen');
    await b.shown();
    b.sight.stop();
    expect(b.opened.map(({ closed }) => closed)).toEqual([true, true]);
  });

  it('is told why a picture did not reach it', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.answers('camera');
    await b.hears({ type: 'error', error: { event_id: b.sent[0]?.event_id, code: 'invalid_image', message: 'There is no room.' } });
    expect(b.last).toBe('Error: the picture did not reach you: There is no room.');
    b.now = 2000;
    b.connected = false;
    await b.looks('2');
    expect(b.last).toContain('interrupted');
  });

  it('goes on where nobody says that the picture is there', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.answers('camera');
    await vi.advanceTimersByTimeAsync(5000);
    expect(b.last).toContain('"of":"camera"');
  });

  it.each([
    ['camera', 'NotAllowedError', ['no_camera']],
    ['screen', 'NotAllowedError', []], // the user has closed the browser's choice
    ['screen', 'NotReadableError', ['no_screen']],
  ] as const)('is told that the %s cannot be opened: %s', async (subject, name, problems) => {
    const b = new Bench();
    b.fails = Object.assign(new Error('No.'), { name });
    await b.looks('1');
    await b.answers(subject);
    expect([b.last.startsWith(`Error: the ${subject} cannot be looked at`), b.problems, b.sight.subject]).toEqual([true, problems, null]);
    b.fails = undefined;
    await b.looks('2');
    expect(b.sight.asking).toBe(true);
  });

  it('sees nothing after the call', async () => {
    const b = new Bench();
    let ready = () => {};
    b.ready = new Promise((resolve) => (ready = resolve));
    await b.looks('1');
    await b.answers('screen');
    b.runs.close();
    b.sight.close();
    ready();
    await b.settled();
    expect([b.opened[0]?.closed, b.sight.subject, b.sent]).toEqual([true, null, []]);
    const asked = new Bench();
    await asked.looks('1');
    asked.runs.close();
    asked.sight.close();
    await asked.settled();
    expect([asked.sight.asking, asked.sent]).toEqual([false, []]);
  });
});

describe('a picture of the screen', () => {
  it('is of a screen that is shared for that alone', async () => {
    const b = new Bench();
    expect(await (await b.sight.screenshot())?.text()).toContain('screen');
    expect([b.opened[0]?.closed, b.sight.subject, b.sent]).toEqual([true, null, []]);
  });

  it('is of the screen that the model may see', async () => {
    const b = new Bench();
    await b.looks('1');
    await b.answers('screen');
    await b.sight.screenshot();
    expect([b.opened.length, b.opened[0]?.closed]).toEqual([1, false]);
  });

  it('is none if the user shares none', async () => {
    const b = new Bench();
    b.fails = Object.assign(new Error('No.'), { name: 'NotAllowedError' });
    expect([await b.sight.screenshot(), b.problems]).toEqual([null, []]);
  });
});

describe("the page's tools", () => {
  it('are declared by their names', () => {
    const names = (tools: object[]) => tools.map((tool) => (tool as { name: string }).name);
    const { runs, sight } = new Bench();
    expect([names(runs.declared(sight.tools)), names(runs.declared())]).toEqual([['changeBrowserTheme', 'look'], ['changeBrowserTheme']]);
  });

  it('are not run once they are no longer declared', async () => {
    const b = new Bench();
    b.runs.declared();
    await b.looks('1');
    expect([b.sight.asking, b.sent]).toEqual([false, []]);
  });

  it.each([
    ['{"theme":"dark"}', 'dark', '{"theme":"dark","applied":true}'],
    ['{"theme":"red"}', '', 'Error: theme must be "light" or "dark".'],
    ['{', '', 'Error: the arguments are not valid JSON.'],
    ['', '', 'Error: theme must be "light" or "dark".'],
  ])('take %s', async (args, theme, answer) => {
    let set = '';
    const { changeBrowserTheme } = toolsOf({ setTheme: (to) => (set = to) });
    if (!changeBrowserTheme) throw new Error('it is missing');
    expect([await runClientTool(changeBrowserTheme, args, new AbortController().signal), set]).toEqual([answer, theme]);
  });

  it('run once, when the server lets them', async () => {
    const b = new Bench();
    await b.hears({ type: 'bridge.tool.started', tool_call_id: '1', name: 'look', executor: 'client' });
    expect(b.sight.asking).toBe(false);
    await b.looks('1');
    expect(b.sight.asking).toBe(true);
    await b.looks('1');
    expect(b.sent).toEqual([]);
  });
});

describe('a call', () => {
  it.each([
    [[{ type: 'bridge.ready', images: true }], true],
    [[{ type: 'bridge.ready' }], false],
    [[{ type: 'bridge.ready', images: true }, { type: 'bridge.upstream.renewed' }], false],
    [[{ type: 'bridge.ready', images: 'yes' }, { type: 'bridge.upstream.renewed', images: true }], true],
  ])('knows whether its model can be shown images: %j', (events, want) => {
    expect(events.reduce((call, event) => reduce(call, event, 0), idleCall).images).toBe(want);
  });
});
